//! Tokens of service accounts: issued on request, known until they expire, kept in memory only.
//!
//! A token looks like those of Kubernetes, so that clients can read in it what it is for. Its last part is no signature but a
//! secret: the server knows what it has issued.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::json;

use crate::rest::{Core, User};
use crate::store::ResourceName;

/// Whom tokens are for unless somebody asks for others.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";

/// What a token is to be for.
pub(crate) struct Wish<'a> {
    pub namespace: &'a str,
    pub account: &'a str,
    /// The uid of the account.
    pub uid: &'a str,
    pub audiences: Vec<String>,
    pub life: SignedDuration,
}

/// All tokens.
#[derive(Default)]
pub(crate) struct Tokens {
    /// Those that are in kubeconfigs.
    of_administrators: Mutex<Vec<String>>,
    /// By all of their text but the secret.
    issued: Mutex<BTreeMap<String, Issued>>,
}

#[derive(Clone)]
struct Issued {
    secret: String,
    /// What a credential is called where its holder is described.
    id: String,
    namespace: String,
    account: String,
    uid: String,
    audiences: Vec<String>,
    expires: Timestamp,
}

impl Tokens {
    /// From now on this one is the administrator's.
    pub(crate) fn admit(&self, token: &str) {
        let mut tokens = self.of_administrators.lock();
        if !tokens.iter().any(|known| known == token) {
            tokens.push(token.to_owned());
        }
    }

    /// A new token, and when it expires; nothing if the system gives no random bytes.
    pub(crate) fn issue(&self, core: &Core, wish: Wish<'_>) -> Option<(String, Timestamp)> {
        let now = core.clock.now();
        let expires = now.checked_add(wish.life).ok()?;
        let id = core.chance.uid();
        let claims = json!({
            "aud": wish.audiences, "iss": AUDIENCE, "jti": id,
            "exp": expires.as_second(), "iat": now.as_second(), "nbf": now.as_second(),
            "kubernetes.io": {
                "namespace": wish.namespace, "serviceaccount": {"name": wish.account, "uid": wish.uid},
            },
            "sub": User::account(wish.namespace, wish.account).name,
        });
        let mut secret = [0_u8; 32];
        rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut secret).ok()?;
        let header = json!({"alg": "none", "typ": "JWT"});
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let (open, secret) = (format!("{header}.{claims}"), URL_SAFE_NO_PAD.encode(secret));
        let token = format!("{open}.{secret}");
        let issued = Issued {
            secret,
            id,
            namespace: wish.namespace.to_owned(),
            account: wish.account.to_owned(),
            uid: wish.uid.to_owned(),
            audiences: wish.audiences,
            expires,
        };
        let mut all = self.issued.lock();
        all.retain(|_, issued| issued.expires > now);
        all.insert(open, issued);
        Some((token, expires))
    }

    /// Who may come in with this token. That of an administrator is nobody's here: doors know their own.
    pub(crate) fn holder(&self, core: &Core, token: &str) -> Option<User> {
        let issued = self.find(token)?;
        let known = issued.audiences.iter().any(|audience| audience == AUDIENCE);
        if known { issued.holder(core).ok() } else { None }
    }

    /// Who has this token, and for which of some audiences it is good.
    ///
    /// # Errors
    /// It is good for nothing; the text says why.
    pub(crate) fn review(
        &self,
        core: &Core,
        token: &str,
        audiences: Vec<String>,
    ) -> Result<(User, Vec<String>), String> {
        if self.of_administrators.lock().iter().any(|known| same(known.as_bytes(), token.as_bytes())) {
            return Ok((User::administrator(), audiences));
        }
        let issued = self.find(token).ok_or("invalid bearer token")?;
        let user = issued.holder(core).map_err(|cause| format!("[invalid bearer token, {cause}]"))?;
        let common: Vec<String> =
            audiences.iter().filter(|audience| issued.audiences.contains(audience)).cloned().collect();
        if common.is_empty() {
            let [own, wanted] = [&issued.audiences, &audiences].map(|list| {
                list.iter().map(|audience| format!("{audience:?}")).collect::<Vec<_>>().join(" ")
            });
            return Err(format!(
                "[invalid bearer token, token audiences [{own}] is invalid for the target audiences [{wanted}]]"
            ));
        }
        Ok((user, common))
    }

    fn find(&self, token: &str) -> Option<Issued> {
        let (open, secret) = token.rsplit_once('.')?;
        let issued = self.issued.lock().get(open).cloned()?;
        same(issued.secret.as_bytes(), secret.as_bytes()).then_some(issued)
    }
}

impl Issued {
    /// The account, if it and the token still live.
    fn holder(&self, core: &Core) -> Result<User, &'static str> {
        if core.clock.now() >= self.expires {
            return Err("service account token has expired");
        }
        let accounts = ResourceName::new("", "serviceaccounts");
        let account = core.store.open().get(&accounts, &self.namespace, &self.account);
        if account.is_none_or(|account| crate::rest::meta_text(&account, "uid") != self.uid) {
            return Err("service account token has been invalidated");
        }
        let mut user = User::account(&self.namespace, &self.account);
        user.uid.clone_from(&self.uid);
        let id = ("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("JTI={}", self.id)]);
        user.extra.extend([id]);
        Ok(user)
    }
}

/// The token in a header `Authorization`. The name of its scheme may be written in letters of any case.
pub(crate) fn bearer(header: &[u8]) -> Option<&[u8]> {
    let mut words = header.trim_ascii().split(|byte| *byte == b' ');
    let scheme = words.next()?;
    words.next().filter(|token| scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty())
}

/// Compares without telling by its duration where a difference is.
pub(crate) fn same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len()
        && given.iter().zip(wanted).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::bearer;

    #[test]
    fn the_scheme_may_be_written_in_any_case() {
        for header in ["Bearer abc", "bearer abc", "BEARER abc", "  bEaReR abc "] {
            assert_eq!(bearer(header.as_bytes()), Some(&b"abc"[..]), "{header}");
        }
        for header in ["", "abc", "Bearer", "Bearer ", "Basic abc", "bearerabc"] {
            assert_eq!(bearer(header.as_bytes()), None, "{header}");
        }
    }
}
