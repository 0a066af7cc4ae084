//! An S3 server on loopback: s3s-fs, which has ranges and conditional puts, but no conditional requests for objects and
//! no lock between looking and writing, and does not remove several objects at once; a few lines here add these. Also
//! compiled into the benchmarks.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as Place;
use s3s::auth::SimpleAuth;
use s3s::dto::*;
use s3s::service::S3ServiceBuilder;
use s3s::{S3, S3Error, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;

use vkstash_remote::bucket::Bucket;

/// The server, and what is counted.
struct Conditional {
    inner: FileSystem,
    folder: PathBuf,
    writing: tokio::sync::Mutex<()>,
    requests: Arc<AtomicU64>,
    not_modified: Arc<AtomicU64>,
    /// Conditions of puts are ignored, as Garage does it.
    is_careless: bool,
}

#[async_trait::async_trait]
impl S3 for Conditional {
    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let known = request.input.if_none_match.clone();
        let got = self.inner.get_object(request).await?;
        if let (Some(ETagCondition::ETag(known)), Some(tag)) = (known, &got.output.e_tag)
            && known.strong_cmp(tag)
        {
            self.not_modified.fetch_add(1, Ordering::Relaxed);
            return Err(s3_error!(NotModified));
        }
        Ok(got)
    }

    async fn put_object(
        &self,
        mut request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.is_careless {
            (request.input.if_match, request.input.if_none_match) = (None, None);
        }
        let _alone = self.writing.lock().await;
        self.inner.put_object(request).await
    }

    /// The library's server removes single objects alone.
    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let bucket = self.folder.join(&request.input.bucket);
        let mut deleted = Vec::new();
        for object in request.input.delete.objects {
            std::fs::remove_file(bucket.join(&object.key)).map_err(S3Error::internal_error)?;
            deleted.push(DeletedObject { key: Some(object.key), ..DeletedObject::default() });
        }
        Ok(S3Response::new(DeleteObjectsOutput { deleted: Some(deleted), ..Default::default() }))
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.inner.head_object(request).await
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        self.inner.create_multipart_upload(request).await
    }

    async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        self.inner.upload_part(request).await
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        self.inner.complete_multipart_upload(request).await
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.inner.abort_multipart_upload(request).await
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.inner.list_objects_v2(request).await
    }
}

/// A server with a bucket, on a thread of its own for as long as the test program lives.
pub(crate) struct Server {
    address: SocketAddr,
    pub(crate) requests: Arc<AtomicU64>,
    pub(crate) not_modified: Arc<AtomicU64>,
}

impl Server {
    pub(crate) fn start(folder: &Path) -> Server {
        Server::start_as(folder, false)
    }

    /// A server that ignores the conditions of puts.
    #[allow(dead_code, reason = "the benchmarks need none")]
    pub(crate) fn careless(folder: &Path) -> Server {
        Server::start_as(folder, true)
    }

    fn start_as(folder: &Path, is_careless: bool) -> Server {
        std::fs::create_dir_all(folder.join("bucket")).unwrap();
        let (requests, not_modified) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let server = Conditional {
            inner: FileSystem::new(folder).unwrap(),
            folder: folder.to_owned(),
            writing: tokio::sync::Mutex::new(()),
            requests: requests.clone(),
            not_modified: not_modified.clone(),
            is_careless,
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut service = S3ServiceBuilder::new(server);
            service.set_auth(SimpleAuth::from_single("user", "secret"));
            let service = service.build();
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    // Answers are not held back until the client's kernel confirms what it has, 40 ms later.
                    socket.set_nodelay(true).unwrap();
                    let service = service.clone();
                    tokio::spawn(async move {
                        let builder = Builder::new(TokioExecutor::new());
                        let _ = builder.serve_connection(TokioIo::new(socket), service).await;
                    });
                }
            });
        });
        Server { address, requests, not_modified }
    }

    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = AmazonS3Builder::new()
            .with_endpoint(format!("http://{}", self.address))
            .with_allow_http(true)
            .with_bucket_name("bucket")
            .with_access_key_id("user")
            .with_secret_access_key("secret");
        Arc::new(builder.build().unwrap())
    }

    pub(crate) fn bucket(&self) -> Bucket {
        Bucket::new(self.store(), Place::from("some/prefix"), Duration::from_secs(60))
    }
}
