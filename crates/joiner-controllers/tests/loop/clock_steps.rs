//! The clock on the wall is set by an hour in the middle of things: nothing comes early, nothing hangs, nothing happens twice.

use std::sync::atomic::Ordering;

use joiner_api::NodeClaim;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use crate::stage::{Spy, Stage, pod_node};

/// Forward and back.
const STEPS: [i64; 2] = [3600, -3600];

fn claims_created(spy: &Spy) -> usize {
    let log = spy.log.lock().unwrap();
    log.iter().filter(|line| line.contains(" POST ") && line.contains("/nodeclaims ")).count()
}

#[tokio::test(start_paused = true)]
async fn batches_and_launches_go_on() {
    for step in STEPS {
        for before in 0..6 {
            let stage = Stage::new().await;
            let spy = Spy::new(&stage, usize::MAX);
            let running = stage.start_over(spy.client(), stage.kwok(spy.client()));
            stage.pass(1).await;
            stage.create_pods("web", 3, "1").await;
            stage.pass(before).await;
            stage.set_wall_clock(step);
            stage.pass(12).await;
            let bound = stage.pods().await.iter().filter(|pod| pod_node(pod).is_some()).count();
            let seen = (claims_created(&spy), stage.nodes().await.len(), bound);
            assert_eq!(seen, (1, 1, 3), "set by {step} s after {before} s: {:#?}", spy.log.lock().unwrap());
            stage.pass(60).await;
            assert_eq!((claims_created(&spy), stage.nodes().await.len()), (1, 1));
            running.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_does_not_close_early() {
    for step in STEPS {
        let stage = Stage::new().await;
        let running = stage.start();
        stage.pass(1).await;
        // A pod every half second keeps the batch open, for ten seconds at most.
        for number in 0..16 {
            if number == 5 {
                stage.set_wall_clock(step);
            }
            stage.create_pod(&format!("web-{number}"), "100m", json!({})).await;
            stage.pass_millis(500).await;
            assert_eq!(stage.claims().await.len(), 0, "set by {step} s, pod {number}");
        }
        stage.pass(3).await;
        assert_eq!(stage.claims().await.len(), 1, "all of them fit on one");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_node_is_given_up_in_time() {
    for step in STEPS {
        let stage = Stage::new().await;
        stage.apply_class(json!({"nodeRegistrationDelay": "2h"})).await;
        let running = stage.start();
        stage.create_pods("web", 1, "1").await;
        stage.pass(5 * 60).await;
        let first = stage.claims().await[0].uid();
        stage.set_wall_clock(step);
        stage.pass(9 * 60).await;
        let claims = stage.claims().await;
        assert_eq!((claims.len(), claims[0].uid()), (1, first.clone()), "not before 15 minutes are over");
        stage.pass(3 * 60).await;
        let claims = stage.claims().await;
        assert!(claims.len() == 1 && claims[0].uid() != first, "another one is tried");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_goes_at_its_time() {
    for step in STEPS {
        for before in [5, 20, 35] {
            let stage = Stage::new().await;
            let disruption = json!({"spec": {"disruption": {"consolidateAfter": "30s"}}});
            stage.apply_pool("default", disruption).await;
            let running = stage.start();
            stage.create_pods("web", 1, "1").await;
            stage.pass(20).await;
            stage.delete_pod("web-0").await;
            stage.pass(before).await;
            stage.set_wall_clock(step);
            stage.pass(44 - before).await;
            let nodes = stage.nodes().await;
            assert!(
                nodes.len() == 1 && nodes[0].metadata.deletion_timestamp.is_none(),
                "thirty seconds of quiet, fifteen of looking twice; set by {step} s after {before} s"
            );
            stage.pass(14).await;
            let left = (stage.nodes().await.len(), stage.claims().await.len());
            assert_eq!(left, (0, 0), "set by {step} s after {before} s");
            running.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_takes_as_long_as_it_may() {
    for step in STEPS {
        let stage = Stage::new().await;
        let grace = json!({"spec": {"template": {"spec": {"terminationGracePeriod": "5m"}}}});
        stage.apply_pool("default", grace).await;
        let running = stage.start();
        let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
        stage.create_pod("web", "1", protected).await;
        stage.pass(15).await;
        let claims: Api<NodeClaim> = Api::all(stage.client.clone());
        let name = stage.claims().await[0].name_any();
        claims.delete(&name, &DeleteParams::default()).await.unwrap();
        stage.pass(60).await;
        stage.set_wall_clock(step);
        stage.pass(3 * 60).await;
        assert_eq!(stage.pods().await.len(), 1, "set by {step} s: its time is not over");
        stage.pass(75).await;
        assert_eq!(stage.pods().await.len(), 0, "set by {step} s: its time is over");
        assert!(claims.get_opt(&name).await.unwrap().is_none());
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_drain_is_neither_cut_nor_stuck() {
    for step in STEPS {
        for before in 0..5 {
            let stage = Stage::new().await;
            let spy = Spy::new(&stage, usize::MAX);
            let running = stage.start_over(spy.client(), stage.kwok(spy.client()));
            stage.create_pods("web", 1, "1").await;
            stage.pass(15).await;
            stage.delete_pod("web-0").await;
            let claims: Api<NodeClaim> = Api::all(stage.client.clone());
            let name = stage.claims().await[0].name_any();
            claims.delete(&name, &DeleteParams::default()).await.unwrap();
            stage.pass(before).await;
            stage.set_wall_clock(step);
            stage.pass(4 - before).await;
            assert_eq!(stage.nodes().await.len(), 1, "a drain takes five seconds at least");
            stage.pass(8).await;
            assert_eq!((stage.nodes().await.len(), stage.claims().await.len()), (0, 0), "{step} {before}");
            running.stop().await;
            assert!(spy.writes.load(Ordering::Relaxed) < 60);
        }
    }
}
