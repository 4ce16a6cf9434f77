//! Waiting until no other autoscaler is at work: two that see the same pods would both buy machines for them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use joiner_provider::Clock;
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde_json::Value;

use crate::autoscalers;
use crate::connection::told;

/// How often it is looked again.
const PAUSE: Duration = Duration::from_secs(10);

/// Returns once no other autoscaler is at work. Says whose end is waited for, each time that changes.
pub async fn wait(client: Client, clock: Arc<dyn Clock>) {
    let mut said = None;
    loop {
        let found = others(&client).await.map_err(|error| format!("{:#}", told(error)));
        match &found {
            Ok(others) if others.is_empty() => {
                if said.is_some() {
                    tracing::info!("no other autoscaler is at work any more");
                }
                return;
            }
            _ if said.as_ref() == Some(&found) => {}
            Ok(others) => tracing::warn!(
                autoscalers = others.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
                "another autoscaler is at work: joiner observes, and acts when it has ended, or with --take-over"
            ),
            Err(error) => tracing::warn!(
                error,
                "whether another autoscaler is at work cannot be seen: joiner observes until it can, or acts with --take-over"
            ),
        }
        said = Some(found);
        clock.sleep(PAUSE).await;
    }
}

/// The autoscalers that pods run.
async fn others(client: &Client) -> Result<BTreeSet<String>, kube::Error> {
    let mut found = BTreeSet::new();
    for selector in autoscalers::SELECTORS {
        let list = Request::new("/api/v1/pods").list(&ListParams::default().labels(selector));
        let answer: Value = client.request(list.map_err(kube::Error::BuildRequest)?).await?;
        found.extend(answer["items"].as_array().into_iter().flatten().filter_map(autoscalers::of_pod));
    }
    Ok(found)
}
