//! A listener that gives the server to kubectl: HTTPS, on loopback unless told otherwise, and nobody comes in without the token.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, ORIGIN};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::service_fn;

use crate::credentials::{CredentialError, Credentials};
use crate::rest::Failure;
use crate::service::{ApiServer, ResponseBody, drain};
use crate::tokens::{bearer, same};

/// So many clients at once, each with as many requests as HTTP/2 allows it.
const MOST_CONNECTIONS: usize = 4096;

/// A client that has not greeted or sent its headers by then is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// So much is read of a body that nobody wants: most clients listen only when they have sent all.
const LONGEST_UNREAD: usize = 256 * 1024;

/// Why a listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Somebody else listens there.
    #[error("port {} of {} is in use: choose another, or 0 for a free one", .0.port(), .0.ip())]
    InUse(SocketAddr),
    /// The address does not exist or is not allowed.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The certificate or the token could not be made or read.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    /// The certificate could not be used.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// An open listener that does not answer yet.
pub struct Endpoint {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    address: SocketAddr,
    authority: String,
    token: String,
    most_connections: usize,
}

impl Endpoint {
    /// Listens on a port of loopback, with credentials made for the occasion; port 0 takes a free one.
    ///
    /// # Errors
    /// The port cannot be had, or the credentials cannot be made.
    pub async fn bind(port: u16) -> Result<Self, ServeError> {
        Self::open(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), &Credentials::generate()?).await
    }

    /// Listens on an address.
    ///
    /// # Errors
    /// The address cannot be had, or the credentials cannot be used.
    pub async fn open(address: SocketAddr, credentials: &Credentials) -> Result<Self, ServeError> {
        let failed = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AddrInUse => ServeError::InUse(address),
            _ => ServeError::Listen { address, source },
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let (chain, key) = credentials.certificate(address.ip())?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            listener,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            address,
            authority: credentials.authority().to_owned(),
            token: credentials.token().to_owned(),
            most_connections: MOST_CONNECTIONS,
        })
    }

    /// The same for so many clients at once; further ones are sent away.
    #[must_use]
    pub fn at_most(self, connections: usize) -> Self {
        Self { most_connections: connections, ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig with everything a client needs.
    pub fn kubeconfig(&self) -> String {
        use base64::Engine as _;
        let authority = base64::engine::general_purpose::STANDARD.encode(&self.authority);
        // A listener on every address is reached on this machine's own.
        let host = match self.address.ip() {
            IpAddr::V4(address) if address.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
            IpAddr::V6(address) if address.is_unspecified() => IpAddr::from(std::net::Ipv6Addr::LOCALHOST),
            address => address,
        };
        let reached = SocketAddr::new(host, self.address.port());
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "joiner",
                "cluster": {"server": format!("https://{reached}"), "certificate-authority-data": authority},
            }],
            "users": [{"name": "joiner", "user": {"token": self.token}}],
            "contexts": [{"name": "joiner", "context": {"cluster": "joiner", "user": "joiner"}}],
            "current-context": "joiner",
        });
        // Kubeconfigs are YAML, and JSON is YAML: should one form fail, the other will do.
        serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
    }

    /// Answers until `end` comes. Open watches are cut off then.
    pub async fn serve(self, server: ApiServer, end: impl Future<Output = ()>) {
        server.admit(&self.token);
        let token: Arc<str> = self.token.as_str().into();
        let room = Arc::new(Semaphore::new(self.most_connections));
        let mut connections = JoinSet::new();
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                () = &mut end => return,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match (accepted, room.clone().try_acquire_owned()) {
                    (Ok((stream, _)), Ok(place)) => {
                        let conversation = converse(stream, self.acceptor.clone(), server.clone(), token.clone());
                        connections.spawn(async move {
                            conversation.await;
                            drop(place);
                        });
                    }
                    // Too many clients: this one is sent away.
                    (Ok(_), Err(_)) => {}
                    // A connection that fails is the client's loss; the listener goes on, but not in a hurry.
                    (Err(_), _) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        }
    }
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor, server: ApiServer, token: Arc<str>) {
    // Small answers are not held back to be sent with the next.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await else { return };
    let service = service_fn(move |request: Request<_>| {
        let (server, token) = (server.clone(), token.clone());
        async move {
            let given = request.headers().get(AUTHORIZATION).map_or(&[][..], HeaderValue::as_bytes);
            let known =
                bearer(given).is_some_and(|given| same(given, token.as_bytes()) || is_issued(&server, given));
            let refused = if !known {
                Failure::new(401, "Unauthorized", "Unauthorized")
            } else if request.headers().contains_key(ORIGIN) {
                // Clients are programs. A page in a browser that got hold of the token is none.
                Failure::new(403, "Forbidden", "requests of web pages are not answered")
            } else {
                return Ok::<_, std::convert::Infallible>(server.answer(request).await);
            };
            drain(pin!(request.into_body()), LONGEST_UNREAD).await;
            Ok(refuse(&refused))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let _ = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await;
}

/// Whether a service account shows a token that it has got from the server.
fn is_issued(server: &ApiServer, given: &[u8]) -> bool {
    std::str::from_utf8(given).is_ok_and(|token| server.knows_token(token))
}

fn refuse(failure: &Failure) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(Bytes::from(failure.to_value().to_string())).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(failure.code).unwrap_or(StatusCode::FORBIDDEN);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::service::Settings;

    async fn ask(endpoint: (SocketAddr, &str), authorization: &str, path: &str) -> String {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(endpoint.1.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(endpoint.0).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // Closing without a farewell is no error here.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn the_token_of_the_kubeconfig_opens_the_door() {
        let server = ApiServer::new(Arc::new(|| Timestamp::UNIX_EPOCH), &Settings::default());
        let endpoint = Endpoint::bind(0).await.unwrap();
        let (authority, token) = (endpoint.authority.clone(), endpoint.token.clone());
        let address = endpoint.address();
        assert!(
            endpoint.kubeconfig().contains(&token) && endpoint.kubeconfig().contains(&address.to_string())
        );
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = tokio::spawn(endpoint.serve(server, async move {
            let _ = stopped.await;
        }));
        let path = "/api/v1/namespaces/default";
        for scheme in ["Bearer", "bearer"] {
            let answer = ask((address, &authority), &format!("{scheme} {token}"), path).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{scheme}: {answer}");
            assert!(answer.contains("\"kind\":\"Namespace\""), "{answer}");
        }
        for authorization in ["Bearer wrong", &token] {
            let answer = ask((address, &authority), authorization, path).await;
            assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        }
        drop(stop);
        tokio::time::timeout(Duration::from_secs(10), serving).await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }
}
