//! A small HTTPS client for a kubeconfig with a token, as the testbed and the embedded server write them.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

/// A client with one kept connection for requests and a new one for each stream.
pub struct Client {
    address: String,
    token: HeaderValue,
    tls: TlsConnector,
    kept: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl Client {
    /// Reads server, authority and token of a kubeconfig with one of each.
    ///
    /// # Errors
    /// One of them is missing, or of a form that the testbed does not write.
    pub fn from_kubeconfig(text: &str) -> Result<Self> {
        let config: Value = serde_saphyr::from_str(text).context("the kubeconfig is not YAML")?;
        let text = |pointer: &str| {
            let value = config.pointer(pointer).and_then(Value::as_str);
            value.with_context(|| format!("the kubeconfig has no `{pointer}`"))
        };
        let server = text("/clusters/0/cluster/server")?;
        let Some(address) = server.strip_prefix("https://") else {
            bail!("the server `{server}` of the kubeconfig is not an https address");
        };
        let authority = base64::engine::general_purpose::STANDARD
            .decode(text("/clusters/0/cluster/certificate-authority-data")?)?;
        let token = format!("Bearer {}", text("/users/0/user/token")?);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&authority)?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            address: address.trim_end_matches('/').to_owned(),
            token: HeaderValue::from_str(&token)?,
            tls: TlsConnector::from(Arc::new(config)),
            kept: Mutex::new(None),
        })
    }

    /// The same server and user with a connection of its own.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            address: self.address.clone(),
            token: self.token.clone(),
            tls: self.tls.clone(),
            kept: Mutex::new(None),
        }
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(ServerName::try_from("localhost")?, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn prepared(&self, mut request: Request<Full<Bytes>>) -> Result<Request<Full<Bytes>>> {
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, self.token.clone());
        headers.insert(HOST, HeaderValue::from_str(&self.address)?);
        Ok(request)
    }

    /// Sends a request and reads the whole answer. The path stands in the address, without a host.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>> {
        let request = self.prepared(request)?;
        let mut kept = self.kept.lock().await;
        // A connection that the server closed meanwhile is found out here, not by a failed request.
        let mut usable = None;
        if let Some(mut sender) = kept.take() {
            usable = sender.ready().await.is_ok().then_some(sender);
        }
        let mut sender = match usable {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        *kept = Some(sender);
        Ok(Response::from_parts(parts, body))
    }

    /// Sends a request and gives the answer before its body has come.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn stream(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        Ok(self.connect().await?.send_request(self.prepared(request)?).await?)
    }

    /// Tells each event of a watch until the server ends it.
    ///
    /// # Errors
    /// The connection fails, the server refuses the watch, or what it sends is no JSON.
    pub async fn watch(&self, path: &str, mut tell: impl FnMut(Value)) -> Result<()> {
        let request = Request::builder().uri(path).header(ACCEPT, "application/json").body(Full::default())?;
        let answer = self.stream(request).await?;
        if !answer.status().is_success() {
            bail!("the server answers {} to `{path}`", answer.status());
        }
        let (mut body, mut open) = (answer.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            open.extend_from_slice(frame?.data_ref().map_or(&[][..], |data| data));
            while let Some(end) = open.iter().position(|byte| *byte == b'\n') {
                let event = serde_json::from_slice(&open[..end])?;
                open.drain(..=end);
                tell(event);
            }
        }
        Ok(())
    }

    /// The status and JSON body of an answer.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn get(&self, path: &str) -> Result<(u16, Value)> {
        self.call(Method::GET, path, None).await
    }

    /// Sends JSON; the status and JSON body of the answer, null when it is not JSON.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        let mut request = Request::builder().method(&method).uri(path).header(ACCEPT, "application/json");
        if body.is_some() {
            let merge = method == Method::PATCH;
            let kind = if merge { "application/merge-patch+json" } else { "application/json" };
            request = request.header(CONTENT_TYPE, kind);
        }
        let body = body.map(ToString::to_string).unwrap_or_default();
        let answer = self.send(request.body(Full::new(Bytes::from(body)))?).await?;
        Ok((answer.status().as_u16(), serde_json::from_slice(answer.body()).unwrap_or_default()))
    }
}
