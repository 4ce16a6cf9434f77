//! Who is let in: a token, and the authority that vouches for the listener.
//!
//! Both are made once. A server that keeps its objects in a folder keeps these there too, so that clients it had before a restart
//! need no new kubeconfig. The certificate of the listener itself is made at every start.

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};

/// The name of the file within its folder.
const FILE_NAME: &str = "credentials.json";

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// There was no randomness for the token.
    #[error("cannot make a token: the system gives no random bytes")]
    Token,
    /// The file cannot be read or written.
    #[error("cannot use `{}`: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file makes no sense.
    #[error("`{}` is damaged and was left as it is: remove it, and new credentials are made", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// A token, and an authority with its key. Not to be shown: there is no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub struct Credentials {
    token: String,
    authority: String,
    authority_key: String,
}

impl Credentials {
    /// New ones.
    ///
    /// # Errors
    /// The system does not give what they are made of.
    pub fn generate() -> Result<Self, CredentialError> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let mut secret = [0_u8; 32];
        provider.secure_random.fill(&mut secret).map_err(|_| CredentialError::Token)?;
        let token = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let key = KeyPair::generate()?;
        let authority = authority()?.self_signed(&key)?.pem();
        Ok(Self { token, authority, authority_key: key.serialize_pem() })
    }

    /// Those of a folder, made if there are none.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn in_folder(folder: &Path) -> Result<Self, CredentialError> {
        let path = folder.join(FILE_NAME);
        let failed = |source| CredentialError::File { path: path.clone(), source };
        match std::fs::read(&path) {
            Ok(text) => {
                let read: Option<Self> = serde_json::from_slice(&text).ok();
                read.filter(|read| !read.token.is_empty() && KeyPair::from_pem(&read.authority_key).is_ok())
                    .ok_or(CredentialError::Damaged { path })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let credentials = Self::generate()?;
                let text = serde_json::to_string(&credentials).map_err(|error| failed(error.into()))?;
                // In place only when it is whole.
                let draft = folder.join(format!("{FILE_NAME}.new"));
                write_private(&draft, &text).map_err(failed)?;
                std::fs::rename(&draft, &path).map_err(failed)?;
                Ok(credentials)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// The certificate of the authority.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// What clients show.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// A certificate for this machine and an address of it.
    pub(crate) fn certificate(
        &self,
        address: IpAddr,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CredentialError> {
        let issuer = Issuer::new(authority()?, KeyPair::from_pem(&self.authority_key)?);
        let mut names = ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default.svc"]
            .map(str::to_owned)
            .to_vec();
        if !address.is_loopback() && !address.is_unspecified() {
            names.push(address.to_string());
        }
        let mut leaf = CertificateParams::new(names)?;
        leaf.distinguished_name.push(DnType::CommonName, "joiner api");
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = leaf.signed_by(&key, &issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok((vec![certificate.der().clone()], key))
    }
}

fn authority() -> Result<CertificateParams, rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "joiner");
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(authority)
}

/// Writes a file that only its owner may read, whatever it was before.
///
/// # Errors
/// The system does not let us.
pub fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    // The mode above is for new files only.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_credentials() {
        let folder = std::env::temp_dir().join(format!("joiner-credentials-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let first = Credentials::in_folder(&folder).unwrap();
        let second = Credentials::in_folder(&folder).unwrap();
        assert_eq!((first.token(), first.authority()), (second.token(), second.authority()));
        let path = folder.join(FILE_NAME);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        std::fs::write(&path, "{}").unwrap();
        let refused = Credentials::in_folder(&folder).err().unwrap().to_string();
        assert!(refused.contains("credentials.json` is damaged"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
