//! Who asks: the administrator, a service account that shows a token of its own, or whom one of them pretends to be.
//!
//! Everybody may do everything, so this matters only where somebody asks who he is.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::status::Failure;
use super::{Core, Incoming};
use crate::tokens::bearer;

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
const ACCOUNT: &str = "system:serviceaccount:";

/// A user as Kubernetes describes one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Who has the token of the kubeconfig.
    pub(crate) fn administrator() -> Self {
        let groups = ["system:masters", AUTHENTICATED].map(str::to_owned).to_vec();
        Self { name: "kubernetes-admin".to_owned(), groups, ..Self::default() }
    }

    /// A service account.
    pub(crate) fn account(namespace: &str, name: &str) -> Self {
        let mut groups = account_groups(namespace);
        groups.push(AUTHENTICATED.to_owned());
        Self { name: format!("{ACCOUNT}{namespace}:{name}"), groups, ..Self::default() }
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut user = json!({"username": self.name});
        if !self.uid.is_empty() {
            user["uid"] = self.uid.clone().into();
        }
        if !self.groups.is_empty() {
            user["groups"] = self.groups.clone().into();
        }
        if !self.extra.is_empty() {
            user["extra"] = json!(self.extra);
        }
        user
    }
}

fn account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// Who sent a request.
///
/// # Errors
/// Somebody pretends to be in a group without pretending to be anybody.
pub(crate) fn of(core: &Core, incoming: &Incoming) -> Result<User, Failure> {
    if let Some(user) = pretended(incoming)? {
        return Ok(user);
    }
    let token = incoming.authorization.as_deref().and_then(|given| bearer(given.as_bytes()));
    let token = token.and_then(|token| std::str::from_utf8(token).ok());
    let holder = token.and_then(|token| core.tokens.holder(core, token));
    Ok(holder.unwrap_or_else(User::administrator))
}

/// The user that headers of a request put in the place of its sender.
///
/// # Errors
/// There is a group, a uid or something else without a user.
pub(crate) fn pretended(incoming: &Incoming) -> Result<Option<User>, Failure> {
    if incoming.pretence.is_empty() {
        return Ok(None);
    }
    let mut user = User::default();
    let mut asked = Vec::new();
    for (header, value) in &incoming.pretence {
        match header.as_str() {
            "user" => user.name.clone_from(value),
            "uid" => {
                asked.push(format!("{{UID  {value}  authentication.k8s.io/v1  }}"));
                user.uid.clone_from(value);
            }
            "group" => {
                asked.push(format!("{{Group  {value}    }}"));
                user.groups.push(value.clone());
            }
            other => {
                let Some(key) = other.strip_prefix("extra-") else { continue };
                let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                asked.push(format!("{{UserExtra  {value}  authentication.k8s.io/v1  {key}}}"));
                user.extra.entry(key).or_default().push(value.clone());
            }
        }
    }
    if user.name.is_empty() {
        if asked.is_empty() {
            return Ok(None);
        }
        let message = format!("requested [{}] without impersonating a user", asked.join(" "));
        return Err(Failure::bad_request(message));
    }
    let account = user.name.strip_prefix(ACCOUNT).and_then(|account| account.split_once(':'));
    if let (Some((namespace, _)), true) = (account, user.groups.is_empty()) {
        user.groups = account_groups(namespace);
    }
    let has = |wanted: &str| user.groups.iter().any(|group| group == wanted);
    if user.name == ANONYMOUS {
        if !has(UNAUTHENTICATED) {
            user.groups.push(UNAUTHENTICATED.to_owned());
        }
    } else if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    Ok(Some(user))
}
