//! `cargo xtask control-plane`: a real Kubernetes control plane on this machine, for tests and for looking things up.
//!
//! The work is done by `joiner-testbed`; this is its command line.

use anyhow::bail;
use clap::{Args as ClapArgs, Subcommand};
use joiner_testbed::plane::Parts;
use joiner_testbed::{build, cache, standing};

/// Options of the chore.
#[derive(ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Build etcd, the Kubernetes programs, kubectl and kwok into the cache; takes no time when they are there
    Build,
    /// Build what is missing, start everything on loopback and say how to use it
    Up {
        /// Without controller manager, scheduler and kwok: what is written stays as it is
        #[arg(long)]
        bare: bool,
    },
    /// End what `up` started and remove its files
    Down,
    /// Say what runs and where the programs are
    Status,
}

/// Does one of the four.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match args.action {
        Action::Build => {
            build::build(&mut |line| println!("control plane: {line}"))?;
        }
        Action::Up { bare } => {
            let programs = build::build(&mut |line| println!("control plane: {line}"))?;
            let parts = if bare { Parts::BARE } else { Parts::ALL };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let kubeconfig = runtime.block_on(standing::up(&programs, parts))?;
            println!("Kubernetes {} runs on this machine.\n", cache::KUBERNETES);
            println!("  export KUBECONFIG={}", kubeconfig.display());
            println!("  export PATH={}:$PATH    # kubectl, kwok", programs.folder().display());
            println!("  kubectl get namespaces\n");
            if !bare {
                println!("Nodes annotated `kwok.x-k8s.io/node: fake` become ready, and pods on them run.");
            }
            println!(
                "`JOINER_TEST_KUBECONFIG` lets the tests use it; `cargo xtask control-plane down` ends it."
            );
        }
        Action::Down => match standing::down()? {
            0 => println!("no control plane runs"),
            ended => println!("ended {ended} programs"),
        },
        Action::Status => {
            match cache::Programs::built() {
                Ok(programs) => println!("programs: {}", programs.folder().display()),
                Err(error) => println!("programs: {error:#}"),
            }
            let members = standing::status()?;
            for member in &members {
                let state = if member.runs { "runs" } else { "ended" };
                println!("{}: {state}, process {}", member.name, member.pid);
            }
            if members.is_empty() {
                println!("no control plane runs");
            } else if members.iter().any(|member| !member.runs) {
                bail!("a program has ended; its log is beside {}", standing::kubeconfig()?.display());
            } else {
                println!("kubeconfig: {}", standing::kubeconfig()?.display());
            }
        }
    }
    Ok(())
}
