//! A relay between client and server that cuts every open connection on demand.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Result;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};

/// A listener on loopback that passes bytes on to a server.
pub struct Relay {
    address: SocketAddr,
    cut: broadcast::Sender<()>,
    target: watch::Sender<String>,
    open: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Relay {
    /// Listens on a free port and passes on to `target`, a host and port.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn start(target: &str) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (cut, _) = broadcast::channel(1);
        let (target, aim) = watch::channel(target.to_owned());
        let (open, accepted) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let (cutter, is_open, count) = (cut.clone(), open.clone(), accepted.clone());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                if is_open.load(Ordering::Relaxed) {
                    let target = aim.borrow().clone();
                    tokio::spawn(pass(client, target, cutter.subscribe()));
                }
            }
        });
        Ok(Self { address, cut, target, open, accepted, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all connections; new ones are taken.
    pub fn cut(&self) {
        let _ = self.cut.send(());
    }

    /// Cuts all connections and refuses new ones until [`Relay::open`].
    pub fn close(&self) {
        self.open.store(false, Ordering::Relaxed);
        self.cut();
    }

    /// Takes connections again, for this server from now on.
    pub fn open(&self, target: &str) {
        self.target.send_replace(target.to_owned());
        self.open.store(true, Ordering::Relaxed);
    }

    /// How many connections came so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

async fn pass(mut client: TcpStream, target: String, mut cut: broadcast::Receiver<()>) {
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        _ = cut.recv() => {}
    }
}
