//! What became of capacity buffers, as a few lines for people.

use joiner_record::plan::BufferDocument;

use crate::{Streams, show};

/// One line per buffer, and what is wrong with it.
pub(super) fn write(buffers: &[BufferDocument], streams: &mut Streams) -> std::io::Result<()> {
    let (good, bad, dim) = (show::GREEN, show::RED, show::DIM);
    for buffer in buffers {
        let name = &buffer.buffer;
        if buffer.provisioning == "NotReadyForProvisioning" {
            writeln!(streams.out, "{bad}x{bad:#} buffer {name}: not ready ({})", buffer.ready)?;
        } else {
            let style = if buffer.unplaced > 0 { bad } else { good };
            writeln!(
                streams.out,
                "{style}~{style:#} buffer {name}: {}, {} on existing nodes, {} on new nodes, {} refused   {dim}{}{dim:#}",
                show::plural(buffer.replicas, "virtual pod"),
                buffer.on_existing_nodes,
                buffer.on_new_nodes,
                buffer.unplaced,
                buffer.provisioning,
            )?;
        }
        for reason in &buffer.reasons {
            let pool = reason.node_pool.as_ref().map_or(String::new(), |pool| format!("nodepool/{pool}: "));
            writeln!(streams.out, "    {pool}{}", reason.message)?;
        }
    }
    Ok(())
}
