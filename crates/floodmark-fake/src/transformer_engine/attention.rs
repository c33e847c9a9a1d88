//! Fused attention: the kernel of cuDNN, and the buffers of its results.

use std::fmt;
use std::str::FromStr;

use crate::hidden::cudnn_attention_workspace;

/// The kernel of cuDNN for an attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FusedAttention {
    /// For float16 and bfloat16, of any length.
    Half,
    /// For FP8.
    Float8,
    /// None: a head's width is not a multiple of 8.
    UnalignedHead,
    /// None for this type or this width of a head.
    Unsupported,
}

impl FusedAttention {
    /// The kernel for the widths of a head of queries and of values. `is_half` and `is_float8` describe the type of the
    /// queries, `capability` the GPU (90 for 9.0).
    pub fn chosen_for(
        query_head: u64,
        value_head: u64,
        is_half: bool,
        is_float8: bool,
        capability: u32,
    ) -> Self {
        let head = query_head.max(value_head);
        if !query_head.is_multiple_of(8) || !value_head.is_multiple_of(8) {
            return Self::UnalignedHead;
        }
        let widest_half = if capability >= 90 { 256 } else { 128 };
        let widest_float8 = if capability < 100 { 256 } else { 192 };
        if is_half && head <= widest_half {
            Self::Half
        } else if is_float8 && capability >= 90 && head <= widest_float8 {
            Self::Float8
        } else {
            Self::Unsupported
        }
    }
}

/// The order of the dimensions of queries, keys, values or outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Length, batch, heads, width.
    Sbhd,
    /// Batch, length, heads, width.
    Bshd,
    /// Batch, heads, length, width.
    Bhsd,
    /// All sequences one after the other, heads, width.
    Thd,
}

/// A dimension of a [`Format`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    Batch,
    Length,
    Tokens,
    Heads,
    Width,
}

/// An unknown name of Transformer Engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownLayout(String);

impl fmt::Display for UnknownLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transformer Engine's layout `{}` is not supported with fake tensors", self.0)
    }
}

impl std::error::Error for UnknownLayout {}

impl FromStr for Format {
    type Err = UnknownLayout;

    /// Reads a member of `NVTE_QKV_Format`.
    fn from_str(name: &str) -> Result<Self, UnknownLayout> {
        match name.trim_start_matches("NVTE_") {
            "SBHD" => Ok(Self::Sbhd),
            "BSHD" => Ok(Self::Bshd),
            "BHSD" => Ok(Self::Bhsd),
            "THD" => Ok(Self::Thd),
            _ => Err(UnknownLayout(name.to_owned())),
        }
    }
}

impl Format {
    fn axes(self) -> &'static [Axis] {
        match self {
            Self::Sbhd => &[Axis::Length, Axis::Batch, Axis::Heads, Axis::Width],
            Self::Bshd => &[Axis::Batch, Axis::Length, Axis::Heads, Axis::Width],
            Self::Bhsd => &[Axis::Batch, Axis::Heads, Axis::Length, Axis::Width],
            Self::Thd => &[Axis::Tokens, Axis::Heads, Axis::Width],
        }
    }

    fn size(self, sizes: &[u64], axis: Axis) -> u64 {
        let at = self.axes().iter().position(|own| *own == axis);
        at.and_then(|at| sizes.get(at)).copied().unwrap_or(1)
    }

    /// The sizes in another order; as they are where the other has other dimensions.
    fn arranged(self, sizes: &[u64], after: Option<Self>) -> Vec<u64> {
        match after {
            Some(after) if after.axes().len() == self.axes().len() => {
                after.axes().iter().map(|axis| self.size(sizes, *axis)).collect()
            }
            Some(_) | None => sizes.to_vec(),
        }
    }
}

/// Which of queries, keys and values share a buffer, and the place of the extra dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Each has its own.
    Separate,
    /// Keys and values share one.
    KeysAndValues {
        /// Whether the extra dimension lies behind the heads, and not before them.
        is_behind_heads: bool,
    },
    /// All three share one.
    All {
        /// Whether the extra dimension lies behind the heads, and not before them.
        is_behind_heads: bool,
    },
}

/// A buffer of gradients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// Its sizes.
    pub sizes: Vec<u64>,
    /// The dimension along which it holds several gradients; `None` for a gradient of its own.
    pub packed_axis: Option<usize>,
}

/// How queries, keys and values lie: a member of `NVTE_QKV_Layout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    queries: Format,
    keys: Format,
    packing: Packing,
}

impl FromStr for Layout {
    type Err = UnknownLayout;

    /// Reads a member of `NVTE_QKV_Layout`, such as `NVTE_SBHD_SBH2D`: a digit stands for an extra dimension.
    fn from_str(name: &str) -> Result<Self, UnknownLayout> {
        let layout = name.trim_start_matches("NVTE_").trim_start_matches("Paged_KV_");
        let unknown = || UnknownLayout(name.to_owned());
        let format = |part: Option<&str>| {
            let letters: String = part?.chars().filter(|letter| !letter.is_ascii_digit()).collect();
            letters.parse::<Format>().ok()
        };
        let is_behind_heads = layout.contains("H3D") || layout.contains("H2D");
        let packing = if layout.contains('3') {
            Packing::All { is_behind_heads }
        } else if layout.contains('2') {
            Packing::KeysAndValues { is_behind_heads }
        } else {
            Packing::Separate
        };
        Ok(Self {
            queries: format(layout.split('_').next()).ok_or_else(unknown)?,
            keys: format(layout.split('_').next_back()).ok_or_else(unknown)?,
            packing,
        })
    }
}

impl Layout {
    /// The sizes of the output in `output`'s order, with the width of a head of values.
    pub fn output(&self, output: Option<Format>, queries: &[u64], value_head: u64) -> Vec<u64> {
        let mut sizes = queries.to_vec();
        if let Some(width) = sizes.last_mut() {
            *width = value_head;
        }
        self.queries.arranged(&sizes, output)
    }

    /// The sizes of the sums of the softmax, which backward needs.
    pub fn softmax_sums(&self, queries: &[u64], longest: u64) -> Vec<u64> {
        let size = |axis| self.queries.size(queries, axis);
        match self.queries {
            Format::Thd => vec![size(Axis::Tokens), size(Axis::Heads), 1],
            Format::Sbhd | Format::Bshd | Format::Bhsd => {
                vec![size(Axis::Batch), size(Axis::Heads), longest, 1]
            }
        }
    }

    /// How many heads the queries have.
    pub fn heads(&self, queries: &[u64]) -> u64 {
        self.queries.size(queries, Axis::Heads)
    }

    /// The buffers of the gradients of queries, keys and values in the layout `after`, in the order of their requests.
    pub fn gradients(
        &self,
        after: &Self,
        queries: &[u64],
        keys: &[u64],
        values: &[u64],
    ) -> Vec<Buffer> {
        let queries = self.queries.arranged(queries, Some(after.queries));
        let keys = self.keys.arranged(keys, Some(after.keys));
        let values = self.keys.arranged(values, Some(after.keys));
        let own = |sizes| Buffer { sizes, packed_axis: None };
        match after.packing {
            Packing::Separate => vec![own(queries), own(keys), own(values)],
            Packing::KeysAndValues { is_behind_heads } => {
                vec![own(queries), packed(keys, 2, is_behind_heads)]
            }
            Packing::All { is_behind_heads } => vec![packed(queries, 3, is_behind_heads)],
        }
    }

    /// The bytes of cuDNN's workspace for a backward pass, with elements of `element_bytes`.
    pub fn backward_workspace(&self, queries: &[u64], keys: &[u64], element_bytes: u64) -> u64 {
        let rows = |sizes: &[u64]| sizes.iter().rev().skip(1).product::<u64>();
        let (heads, key_heads) = (self.heads(queries), self.keys.size(keys, Axis::Heads));
        let shared = (key_heads != heads).then(|| rows(keys) / key_heads.max(1) * heads);
        let head = queries.last().copied().unwrap_or(0);
        cudnn_attention_workspace(rows(queries), head, shared, element_bytes)
    }
}

fn packed(mut sizes: Vec<u64>, count: u64, is_behind_heads: bool) -> Buffer {
    let axis = sizes.len().saturating_sub(if is_behind_heads { 1 } else { 2 });
    sizes.insert(axis, count);
    Buffer { sizes, packed_axis: Some(axis) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(name: &str) -> Layout {
        name.parse().expect("a layout of Transformer Engine")
    }

    #[test]
    fn a_kernel_is_chosen_by_type_gpu_and_width() {
        let chosen = |query, value, is_half, capability| {
            FusedAttention::chosen_for(query, value, is_half, !is_half, capability)
        };
        let table = [
            (64, 64, true, 80, FusedAttention::Half),
            (192, 128, true, 80, FusedAttention::Unsupported),
            (192, 128, true, 90, FusedAttention::Half),
            (264, 264, true, 90, FusedAttention::Unsupported),
            (60, 64, true, 90, FusedAttention::UnalignedHead),
            (64, 60, false, 90, FusedAttention::UnalignedHead),
            (256, 256, false, 90, FusedAttention::Float8),
            (256, 256, false, 100, FusedAttention::Unsupported),
            (192, 192, false, 100, FusedAttention::Float8),
            (64, 64, false, 89, FusedAttention::Unsupported),
        ];
        for (query, value, is_half, capability, kernel) in table {
            let found = chosen(query, value, is_half, capability);
            assert_eq!(found, kernel, "{query} {value} {is_half} {capability}");
        }
        let neither = FusedAttention::chosen_for(64, 64, false, false, 90);
        assert_eq!(neither, FusedAttention::Unsupported);
    }

    #[test]
    fn every_layout_of_the_public_headers_is_read() {
        let names = "SBHD_SBHD_SBHD BSHD_BSHD_BSHD THD_THD_THD SBHD_BSHD_BSHD BSHD_SBHD_SBHD \
            THD_BSHD_BSHD THD_SBHD_SBHD BHSD_BHSD_BHSD Paged_KV_BSHD_BSHD_BSHD Paged_KV_BSHD_SBHD_SBHD \
            Paged_KV_SBHD_BSHD_BSHD Paged_KV_SBHD_SBHD_SBHD Paged_KV_THD_BSHD_BSHD Paged_KV_THD_SBHD_SBHD";
        for name in names.split_whitespace() {
            assert_eq!(layout(&format!("NVTE_{name}")).packing, Packing::Separate, "{name}");
        }
        for name in ["SB3HD", "BS3HD", "T3HD"] {
            assert_eq!(layout(name).packing, Packing::All { is_behind_heads: false }, "{name}");
        }
        for name in ["SBHD_SBH2D", "BSHD_BSH2D", "THD_TH2D"] {
            let packing = Packing::KeysAndValues { is_behind_heads: true };
            assert_eq!(layout(name).packing, packing, "{name}");
        }
        assert!("NVTE_QKV_Layout_NOT_SET".parse::<Layout>().is_err());
    }

    #[test]
    fn the_output_has_the_order_of_its_format() {
        let by_length = layout("NVTE_SBHD_SBHD_SBHD");
        let queries = [512, 2, 16, 64];
        assert_eq!(by_length.output(Some(Format::Bshd), &queries, 128), [2, 512, 16, 128]);
        assert_eq!(by_length.output(None, &queries, 64), [512, 2, 16, 64]);
        assert_eq!(by_length.output(Some(Format::Thd), &queries, 64), [512, 2, 16, 64]);
        assert_eq!(by_length.softmax_sums(&queries, 512), [2, 16, 512, 1]);
        assert_eq!(layout("NVTE_THD_THD_THD").softmax_sums(&[700, 16, 64], 512), [700, 16, 1]);
    }

    #[test]
    fn gradients_share_a_buffer_where_the_layout_says_so() {
        let (queries, keys) = ([512, 2, 16, 64], [512, 2, 4, 64]);
        let separate = layout("SBHD_SBHD_SBHD");
        let sizes = |after: &str| -> Vec<(Vec<u64>, Option<usize>)> {
            let buffers = separate.gradients(&layout(after), &queries, &keys, &keys);
            buffers.into_iter().map(|one| (one.sizes, one.packed_axis)).collect()
        };
        assert_eq!(sizes("SB3HD"), [(vec![512, 2, 3, 16, 64], Some(2))]);
        assert_eq!(sizes("SBH3D"), [(vec![512, 2, 16, 3, 64], Some(3))]);
        let own = (queries.to_vec(), None);
        assert_eq!(sizes("SBHD_SB2HD"), [own, (vec![512, 2, 2, 4, 64], Some(2))]);
        let turned = [vec![2, 512, 16, 64], vec![2, 512, 4, 64], vec![2, 512, 4, 64]];
        assert_eq!(sizes("BSHD_BSHD_BSHD"), turned.map(|sizes| (sizes, None)));
    }

    #[test]
    fn backward_adds_up_in_float32() {
        let by_length = layout("SBHD_SBHD_SBHD");
        let queries = [333, 2, 16, 64];
        assert_eq!(by_length.backward_workspace(&queries, &queries, 2), 2_770_816);
        assert_eq!(by_length.backward_workspace(&queries, &[333, 2, 4, 64], 2), 5_498_752);
    }
}
