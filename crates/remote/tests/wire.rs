//! Servers that answer what no server should, byte by byte.

use std::fs;
use std::io::{Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::support::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_vkstash-remote");

#[derive(Clone, Copy, Debug)]
enum Answer {
    EndlessHeaders,
    OneLongHeader,
    RedirectInCircles,
    LongerThanSaid,
    ShorterThanSaid,
    HugeLength,
    WrongLength,
    Compressed,
    SaysCompressed,
    EndlessBody,
    NoHttp,
    Nothing,
    Closes,
}

/// A server on a thread of its own for as long as the test program lives. Returns its address.
fn serve(answer: Answer, object: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (mut socket, object) = (socket.unwrap(), object.clone());
            // A client that has gone away ends it.
            std::thread::spawn(move || reply(&mut socket, answer, &object));
        }
    });
    format!("http://{address}/store")
}

fn reply(socket: &mut TcpStream, answer: Answer, object: &[u8]) -> std::io::Result<()> {
    let mut request = [0; 4096];
    while socket.read(&mut request)? > 0 {
        let tag = "ETag: \"1\"\r\nLast-Modified: Mon, 23 Nov 2026 00:00:00 GMT\r\n";
        let mut ok = |length: &str, more: &str, body: &[u8]| {
            write!(socket, "HTTP/1.1 200 OK\r\n{tag}{more}Content-Length: {length}\r\n\r\n")?;
            socket.write_all(body)
        };
        let length = object.len();
        match answer {
            Answer::LongerThanSaid => ok(&(length / 2).to_string(), "", object)?,
            Answer::ShorterThanSaid => {
                ok(&(length * 2).to_string(), "", object)?;
                return Ok(());
            }
            Answer::HugeLength => ok("18446744073709551615", "", object)?,
            Answer::WrongLength => ok("-7", "", object)?,
            Answer::Compressed => {
                let more = "Content-Encoding: gzip\r\n";
                // An empty member of gzip, which is enough: nobody unpacks it.
                let gzip = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0][..], &[0; 8]].concat();
                ok(&gzip.len().to_string(), more, &gzip)?;
            }
            Answer::SaysCompressed => ok(&length.to_string(), "Content-Encoding: br, gzip\r\n", object)?,
            Answer::EndlessHeaders => {
                write!(socket, "HTTP/1.1 200 OK\r\n")?;
                loop {
                    write!(socket, "X-More: and more\r\n")?;
                }
            }
            Answer::OneLongHeader => {
                write!(socket, "HTTP/1.1 200 OK\r\nX-Long: ")?;
                loop {
                    socket.write_all(&[b'a'; 4096])?;
                }
            }
            Answer::RedirectInCircles => {
                write!(socket, "HTTP/1.1 302 Found\r\nLocation: /store/again\r\nContent-Length: 0\r\n\r\n")?;
            }
            Answer::EndlessBody => {
                write!(socket, "HTTP/1.1 200 OK\r\n{tag}Transfer-Encoding: chunked\r\n\r\n")?;
                loop {
                    write!(socket, "1000\r\n{}\r\n", "a".repeat(0x1000))?;
                }
            }
            Answer::NoHttp => write!(socket, "220 this is no such server\r\n")?,
            Answer::Nothing => std::thread::sleep(Duration::from_secs(3600)),
            Answer::Closes => return Ok(()),
        }
    }
    Ok(())
}

#[test]
fn servers_that_speak_nonsense_change_nothing() {
    let world = World::new();
    let publisher = world.published(0..3);
    let folder = world.folder.path();
    let (signers, into) = (folder.join("signers.toml"), folder.join("into"));
    let signer = fs::read_to_string(&signers).unwrap_or_default();
    assert!(signer.is_empty());
    let key = folder.join("key");
    let made = Command::new(PROGRAM).args(["key", "--no-password"]).arg(&key).output().unwrap();
    fs::write(&signers, made.stdout).unwrap();
    let run = |what: &str, address: &str, url: &str| {
        let mut command = Command::new(PROGRAM);
        command
            .args([what, address, url, "--silence", "1", "--deadline", "20"])
            .arg("--signers")
            .arg(&signers);
        command.arg("--dir").arg(publisher.stash()).arg("--into").arg(&into).env("AWS_ALLOW_HTTP", "1");
        if what == "push" {
            command.arg("--replace").arg("--key").arg(&key);
        }
        command.output().unwrap()
    };
    let file = format!("file://{}", world.store().display());
    for (what, address) in [("push", "--to"), ("pull", "--from")] {
        let told = run(what, address, &file);
        assert!(told.status.success(), "{told:?}");
    }
    let before = files(&into.join("base"));
    assert!(!before.is_empty());
    let manifest = fs::read(world.manifest()).unwrap();
    for (answer, status) in [
        (Answer::EndlessHeaders, 3),
        (Answer::OneLongHeader, 3),
        (Answer::RedirectInCircles, 3),
        (Answer::LongerThanSaid, 4),
        (Answer::ShorterThanSaid, 3),
        (Answer::HugeLength, 3),
        (Answer::WrongLength, 3),
        (Answer::Compressed, 4),
        (Answer::SaysCompressed, 0),
        (Answer::EndlessBody, 3),
        (Answer::NoHttp, 3),
        (Answer::Nothing, 3),
        (Answer::Closes, 3),
    ] {
        let told = run("pull", "--from", &serve(answer, manifest.clone()));
        let said = String::from_utf8_lossy(&told.stderr).into_owned();
        println!("{answer:?}: {:?} {said}", told.status.code());
        assert_eq!(told.status.code(), Some(status), "{answer:?}: {said}");
        assert!(said.lines().all(|line| line.starts_with("vkstash-remote: ") && line.len() < 1000), "{said}");
        assert!(files(&into.join("base")) == before, "{answer:?}");
    }
}

/// Every page of its lists names the next one.
fn endless_lists(socket: &mut TcpStream) -> std::io::Result<()> {
    let (mut request, mut number) = ([0; 8192], 0_u64);
    while socket.read(&mut request)? > 0 {
        let mut names = String::new();
        for _ in 0..200 {
            number += 1;
            names += &format!("<CommonPrefixes><Prefix>v1/manifests/{number:x}/</Prefix></CommonPrefixes>");
        }
        let more = "<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>";
        let body = format!("<?xml version=\"1.0\"?><ListBucketResult>{more}{names}</ListBucketResult>");
        write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    }
    Ok(())
}

#[test]
fn lists_of_pages_without_an_end_are_given_up() {
    let world = World::new();
    let folder = world.folder.path();
    let (key, signers) = (folder.join("key"), folder.join("signers.toml"));
    let made = Command::new(PROGRAM).args(["key", "--no-password"]).arg(&key).output().unwrap();
    fs::write(&signers, made.stdout).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            std::thread::spawn(move || endless_lists(&mut socket.unwrap()));
        }
    });
    let mut command = Command::new(PROGRAM);
    command.args(["pull", "--from", "s3://bucket"]).arg("--signers").arg(&signers);
    command.arg("--dir").arg(folder.join("stash")).arg("--into").arg(folder.join("into"));
    command.env("AWS_ENDPOINT", endpoint).env("AWS_ALLOW_HTTP", "1").env("AWS_SKIP_SIGNATURE", "true");
    // What a program may use is looked for in the list of all.
    let told = command.args(["--", "/bin/sh"]).output().unwrap();
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(told.status.code(), Some(3), "{said}");
    assert!(said.contains("a list has no end"), "{said}");
}
