//! Recordings of many ranks, made up: `ranks COUNT PER_NODE STEPS FOLDER` writes one `.flood` file for each.
//!
//! All ranks run one training loop. The first rank of each node gathers a checkpoint, and one rank in 32 has a cache
//! that grows. The same arguments give the same files, byte for byte.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use floodmark_testing::script::{entries, header};
use floodmark_trace::{Assembler, DeviceInfo, Ending, Header, TraceWriter};

const LAYERS: u32 = 12;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, per_node, steps, folder] = &arguments[..] else {
        anyhow::bail!("expected COUNT PER_NODE STEPS FOLDER");
    };
    let (count, per_node): (u32, u32) = (count.parse()?, per_node.parse()?);
    let (steps, folder): (u32, PathBuf) = (steps.parse()?, folder.into());
    std::fs::create_dir_all(&folder)?;
    for rank in 0..count {
        let path = folder.join(format!("rank-{rank:04}.flood"));
        let bytes = recording(rank, count, per_node.max(1), steps)?;
        std::fs::write(&path, bytes)
            .with_context(|| format!("Failed to write {}", path.display()))?;
    }
    Ok(())
}

fn recording(rank: u32, count: u32, per_node: u32, steps: u32) -> Result<Vec<u8>> {
    let device = DeviceInfo {
        device: "cuda:0".to_owned(),
        name: "made up".to_owned(),
        total_bytes: 80 << 30,
        ..DeviceInfo::default()
    };
    let header = Header {
        host: format!("gpu{:03}", rank / per_node),
        rank: Some(rank),
        world_size: Some(count),
        local_rank: Some(rank % per_node),
        allocator_backend: "native".to_owned(),
        torch: "2.11.0".to_owned(),
        devices: vec![device],
        ..header()
    };
    let entries = entries(&script(rank, rank.is_multiple_of(per_node), steps)?);
    let mut assembler = Assembler::default();
    for entry in &entries {
        assembler.push(&entry.record, &entry.payload);
    }
    let mut writer = TraceWriter::new(Vec::new(), &header)?;
    writer.write_batch(&assembler.take_batch())?;
    let at_micros = entries.last().map_or(0, |entry| entry.record.time_nanos / 1000);
    Ok(writer.finish(&Ending { reason: String::new(), at_micros })?)
}

fn script(rank: u32, gathers: bool, steps: u32) -> Result<String> {
    let mut text = String::new();
    for layer in 0..LAYERS {
        writeln!(text, "alloc w{layer} cuda:0 64MiB at model.py:{} in h.{layer}", 10 + layer)?;
        writeln!(text, "label w{layer} parameter h.{layer}.weight (4096,4096) float32")?;
    }
    if gathers {
        writeln!(text, "alloc gathered cuda:0 96MiB at checkpoint.py:31:gather:20")?;
    }
    for step in 0..steps {
        // Batches of changing length, the same on every rank but for a little.
        let bytes = 16 + step * 7 % 9 + rank % 3;
        for layer in 0..LAYERS {
            writeln!(
                text,
                "alloc a{layer} cuda:0 {bytes}MiB at model.py:{} in h.{layer}",
                40 + layer
            )?;
        }
        if rank % 32 == 5 {
            let grown = 8 + rank / 4;
            writeln!(text, "alloc c{step} cuda:0 {grown}MiB at cache.py:12:remember:8")?;
        }
        for layer in (0..LAYERS).rev() {
            writeln!(
                text,
                "backward alloc g{layer} cuda:0 64MiB at model.py:{} in h.{layer}",
                40 + layer
            )?;
            writeln!(text, "free a{layer}")?;
        }
        for layer in 0..LAYERS {
            writeln!(text, "free g{layer}")?;
        }
        writeln!(text, "step")?;
    }
    Ok(text)
}
