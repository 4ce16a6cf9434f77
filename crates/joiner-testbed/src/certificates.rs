//! The authority, the server's certificate and the key that signs tokens of service accounts, made for one control plane.

use std::path::Path;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Writes `ca.crt`, `server.crt`, `server.key`, `accounts.key` and `accounts.pub`; gives the authority as PEM.
pub(crate) fn write(folder: &Path) -> Result<String> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "joiner testbed");
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority_key = KeyPair::generate()?;
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let names = ["localhost", "127.0.0.1", "kubernetes", "kubernetes.default.svc"];
    let mut leaf = CertificateParams::new(names.map(str::to_owned).to_vec())?;
    leaf.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = leaf.signed_by(&key, &issuer)?;
    let accounts = KeyPair::generate()?;

    std::fs::write(folder.join("ca.crt"), &authority_pem)?;
    std::fs::write(folder.join("server.crt"), certificate.pem())?;
    std::fs::write(folder.join("server.key"), key.serialize_pem())?;
    std::fs::write(folder.join("accounts.key"), accounts.serialize_pem())?;
    std::fs::write(folder.join("accounts.pub"), accounts.public_key_pem())?;
    Ok(authority_pem)
}
