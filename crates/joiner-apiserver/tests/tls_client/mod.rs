//! A client of the listener: one request for each connection, over TLS, with what a kubeconfig says.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Who is asked, and with which token.
#[derive(Clone)]
pub struct TlsClient {
    address: SocketAddr,
    token: String,
    connector: TlsConnector,
}

impl TlsClient {
    /// Reads a kubeconfig as the endpoint writes it.
    pub fn from_kubeconfig(text: &str) -> Self {
        let config: Value = serde_saphyr::from_str(text).expect("a kubeconfig");
        let text =
            |path: &str| config.pointer(path).and_then(Value::as_str).expect("the kubeconfig is whole");
        let authority = base64::engine::general_purpose::STANDARD
            .decode(text("/clusters/0/cluster/certificate-authority-data"))
            .expect("base64");
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&authority).expect("PEM")).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = text("/clusters/0/cluster/server").trim_start_matches("https://");
        Self {
            address: server.parse().expect("an address"),
            token: text("/users/0/user/token").to_owned(),
            connector: TlsConnector::from(Arc::new(config)),
        }
    }

    /// The token it shows.
    #[allow(dead_code, reason = "not every user looks")]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The same with another token.
    #[allow(dead_code, reason = "not every user has one")]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self.clone() }
    }

    /// The status and the body of the answer; an error if there is none, or not all of it.
    pub async fn ask(&self, method: &str, path: &str, body: &str) -> std::io::Result<(u16, Vec<u8>)> {
        self.ask_with(method, path, "", body).await
    }

    /// The same with further headers, each with its line end.
    pub async fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> std::io::Result<(u16, Vec<u8>)> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").expect("a name");
        let mut stream = self.connector.connect(name, stream).await?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{headers}Connection: close\r\n\r\n{body}",
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        // The last of a long request may still be held back.
        stream.flush().await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let broken = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(broken)?;
        let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
        let body = answer.split_off(end + 4);
        if length != Some(body.len()) {
            return Err(broken());
        }
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
        Ok((code, body))
    }
}
