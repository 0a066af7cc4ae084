//! The store is a cluster of three nodes of Garage on loopback (scripts/garage.sh). Garage ignores the conditions of
//! puts.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as Place;
use object_store::{ClientOptions, ObjectStore};
use vkstash_remote::bucket::Bucket;
use vkstash_remote::pull;

use crate::skip;
use crate::support::*;

const NODES: usize = 3;

/// The program, if it is installed.
fn garage() -> Option<PathBuf> {
    let installed = || {
        let tests = std::env::current_exe().unwrap();
        let target = tests.ancestors().find(|folder| folder.join("garage/bin/garage").exists())?;
        Some(target.join("garage/bin/garage"))
    };
    std::env::var_os("VKSTASH_GARAGE").map(PathBuf::from).or_else(installed)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct Cluster {
    program: PathBuf,
    folder: PathBuf,
    nodes: [Option<Child>; NODES],
    ports: [u16; NODES],
    key: String,
    secret: String,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..NODES).for_each(|node| self.stop(node));
    }
}

impl Cluster {
    fn start(program: PathBuf, folder: &Path) -> Cluster {
        // Ports that were free a moment ago.
        let listeners: Vec<_> = (0..2 * NODES).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let free: Vec<u16> = listeners.iter().map(|free| free.local_addr().unwrap().port()).collect();
        drop(listeners);
        let secret = hex::encode([7; 32]);
        for node in 0..NODES {
            let (home, rpc, api) = (folder.join(node.to_string()), free[node], free[NODES + node]);
            std::fs::create_dir_all(&home).unwrap();
            let config = format!(
                "metadata_dir = {home:?}\ndata_dir = {home:?}\ndb_engine = \"lmdb\"\nreplication_factor = {NODES}\n\
                 rpc_bind_addr = \"127.0.0.1:{rpc}\"\nrpc_public_addr = \"127.0.0.1:{rpc}\"\n\
                 rpc_secret = \"{secret}\"\n\
                 [s3_api]\ns3_region = \"garage\"\napi_bind_addr = \"127.0.0.1:{api}\"\n"
            );
            std::fs::write(folder.join(format!("{node}.toml")), config).unwrap();
        }
        let mut cluster = Cluster {
            program,
            folder: folder.to_owned(),
            nodes: Default::default(),
            ports: free[NODES..].try_into().unwrap(),
            key: format!("GK{}", hex::encode([3; 12])),
            secret,
        };
        (0..NODES).for_each(|node| cluster.restart(node));
        let ids: Vec<String> = (0..NODES).map(|node| cluster.say(node, &["node", "id", "-q"])).collect();
        for (node, id) in ids.iter().enumerate() {
            if node > 0 {
                cluster.say(0, &["node", "connect", id]);
            }
            let id = id.split('@').next().unwrap();
            cluster.say(0, &["layout", "assign", "-z", &format!("zone{node}"), "-c", "1G", id]);
        }
        cluster.say(0, &["layout", "apply", "--version", "1"]);
        cluster.say(0, &["key", "import", "--yes", &cluster.key, &cluster.secret]);
        cluster.say(0, &["bucket", "create", "bucket"]);
        cluster.say(0, &["bucket", "allow", "--read", "--write", "bucket", "--key", &cluster.key]);
        cluster
    }

    fn command(&self, node: usize) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(self.folder.join(format!("{node}.toml")));
        command.env("RUST_LOG", "error");
        command
    }

    /// Tries until the cluster does it: its nodes have to find each other first.
    fn say(&self, node: usize, arguments: &[&str]) -> String {
        let mut said = None;
        until(&arguments.join(" "), || {
            let output = self.command(node).args(arguments).output().unwrap();
            said =
                output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned());
            said.is_some()
        });
        said.unwrap()
    }

    fn stop(&mut self, node: usize) {
        if let Some(mut child) = self.nodes[node].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn restart(&mut self, node: usize) {
        let child = self.command(node).arg("server").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.nodes[node] = Some(child.unwrap());
        let port = self.ports[node];
        until("a node that answers", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    fn store(&self, node: usize) -> Arc<dyn ObjectStore> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = AmazonS3Builder::new()
            .with_endpoint(format!("http://127.0.0.1:{}", self.ports[node]))
            .with_client_options(ClientOptions::new().with_allow_http(true))
            .with_region("garage")
            .with_bucket_name("bucket")
            .with_access_key_id(&self.key)
            .with_secret_access_key(&self.secret);
        Arc::new(builder.build().unwrap())
    }

    fn bucket(&self, node: usize) -> Bucket {
        Bucket::new(self.store(node), Place::from("some/prefix"), Duration::from_secs(60))
    }

    fn segments(&self, node: usize) -> usize {
        let store = self.store(node);
        wait(store.list(Some(&Place::from("some/prefix/v1/segments"))).count())
    }
}

#[test]
fn a_node_of_a_cluster_that_dies_in_mid_push_loses_nothing() {
    let Some(program) = garage() else {
        return skip::not_here(&skip::this_test(), "Garage is not installed (scripts/garage.sh)");
    };
    let world = World::new();
    let mut cluster = Cluster::start(program, &world.folder.path().join("garage"));

    // Three publish the same application at once, each through another node.
    std::thread::scope(|scope| {
        for node in 0..NODES {
            let (world, cluster) = (&world, &cluster);
            scope.spawn(move || {
                let machine = world.machine(&format!("machine {node}"));
                let first = node as u64 * 3;
                fill(&machine.stash(), "game", first..first + 3);
                machine.push(world, &cluster.bucket(node), NOW).unwrap();
            });
        }
    });
    let other = world.machine("other");
    let pulled = other.pull_from(&cluster.bucket(1), &world.trust(), NOW).unwrap();
    assert!(pulled.failures.is_empty(), "{}", other.lines.all());
    assert_eq!(other.served(0..12), (0..9).collect::<Vec<_>>());

    // A node dies while twenty applications are published through another one.
    let names: Vec<String> = (0..20).map(|number| format!("game {number}")).collect();
    let publisher = world.machine("publisher");
    names.iter().for_each(|name| fill(&publisher.stash(), name, 0..10));
    let before = cluster.segments(0);
    let (pushed, at_death) = std::thread::scope(|scope| {
        let bucket = cluster.bucket(0);
        let (world, publisher) = (&world, &publisher);
        let pushing = scope.spawn(move || publisher.push(world, &bucket, NOW));
        until("the first segment", || cluster.segments(0) > before);
        cluster.stop(2);
        let at_death = cluster.segments(0) - before;
        (pushing.join().unwrap().unwrap(), at_death)
    });
    assert_eq!((pushed.segments, pushed.manifests), (40, 40));
    assert!(at_death < 40, "{at_death} were there when the node died: it came too late");
    let all = pull_all(&world, &cluster, 1, "after the death");
    names.iter().for_each(|name| assert_eq!(served(&all.home.base(), name, 0..10).len(), 10, "{name}"));

    // The node comes back with what it had, and another one goes.
    cluster.restart(2);
    let id = cluster.say(1, &["node", "id", "-q"]);
    cluster.say(2, &["node", "connect", &id]);
    cluster.stop(0);
    let all = pull_all(&world, &cluster, 2, "through the node that had died");
    names.iter().for_each(|name| assert_eq!(served(&all.home.base(), name, 0..10).len(), 10, "{name}"));
}

/// Pulls every application on a new machine.
fn pull_all(world: &World, cluster: &Cluster, node: usize, name: &str) -> Machine {
    let machine = world.machine(name);
    let request = pull::Request { all: true, ..pull_request(NOW) };
    let bucket = cluster.bucket(node);
    let trust = world.trust();
    let pulling = pull::pull(&bucket, &machine.home, &trust, &request, machine.lines.clone());
    let pulled = wait(pulling).unwrap();
    assert!(pulled.failures.is_empty(), "{}", machine.lines.all());
    machine
}
