//! A listener that gives the server to kubectl: HTTPS on loopback, with a certificate and a token made for the occasion.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::service_fn;

use crate::rest::Failure;
use crate::service::{ApiServer, ResponseBody};

/// Why a listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is taken or not allowed.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificate could not be used.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// There was no randomness for the token.
    #[error("cannot make a token: the system gives no random bytes")]
    Token,
}

/// An open listener that does not answer yet.
pub struct Endpoint {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    address: SocketAddr,
    authority: String,
    token: String,
}

impl Endpoint {
    /// Listens on a port of loopback; 0 takes a free one.
    ///
    /// # Errors
    /// The port cannot be had, or the certificate or token cannot be made.
    pub async fn bind(port: u16) -> Result<Self, ServeError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut secret = [0_u8; 32];
        provider.secure_random.fill(&mut secret).map_err(|_| ServeError::Token)?;
        let token = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let (authority, chain, key) = certificates()?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)), address, authority, token })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig with everything a client needs.
    pub fn kubeconfig(&self) -> String {
        use base64::Engine as _;
        let authority = base64::engine::general_purpose::STANDARD.encode(&self.authority);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "joiner",
                "cluster": {"server": format!("https://{}", self.address), "certificate-authority-data": authority},
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
        let token: Arc<str> = format!("Bearer {}", self.token).into();
        let mut connections = JoinSet::new();
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                () = &mut end => return,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => {
                    // A connection that fails is the client's loss; the listener goes on.
                    if let Ok((stream, _)) = accepted {
                        connections.spawn(converse(stream, self.acceptor.clone(), server.clone(), token.clone()));
                    }
                }
            }
        }
    }
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor, server: ApiServer, token: Arc<str>) {
    // Small answers are not held back to be sent with the next.
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request: Request<_>| {
        let (server, token) = (server.clone(), token.clone());
        async move {
            let known = request
                .headers()
                .get(AUTHORIZATION)
                .is_some_and(|given| same(given.as_bytes(), token.as_bytes()));
            let answer = if known { server.answer(request).await } else { unauthorized() };
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let _ = Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .await;
}

/// Compares without telling by its duration where a difference is.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len()
        && given.iter().zip(wanted).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}

fn unauthorized() -> Response<ResponseBody> {
    let body = Failure::new(401, "Unauthorized", "Unauthorized").to_value().to_string();
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed_unsync());
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

type Chain = Vec<rustls::pki_types::CertificateDer<'static>>;

/// An authority of one certificate, and that certificate for loopback.
fn certificates() -> Result<(String, Chain, PrivateKeyDer<'static>), ServeError> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "joiner");
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority_key = KeyPair::generate()?;
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let names = ["localhost", "127.0.0.1", "kubernetes", "kubernetes.default.svc"];
    let mut leaf = CertificateParams::new(names.map(str::to_owned).to_vec())?;
    leaf.distinguished_name.push(DnType::CommonName, "joiner api");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = leaf.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok((authority_pem, vec![certificate.der().clone()], key))
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

    async fn ask(endpoint: (SocketAddr, &str), token: &str, path: &str) -> String {
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
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
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
        let answer = ask((address, &authority), &token, "/api/v1/namespaces/default").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("\"kind\":\"Namespace\""), "{answer}");
        let answer = ask((address, &authority), "wrong", "/api/v1/namespaces/default").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        drop(stop);
        tokio::time::timeout(Duration::from_secs(10), serving).await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }
}
