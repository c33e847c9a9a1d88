//! The backward pass of a norm adds up the gradients of its weights in parts, a row for each block of threads.

/// How many blocks a multiprocessor runs of a kernel that takes any width.
const GENERAL_BLOCKS: u64 = 16;

/// A norm of Transformer Engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// `LayerNorm`: gradients of a weight and a bias.
    Layer,
    /// `RMSNorm`: the gradient of a weight.
    Rms,
}

impl Norm {
    /// The sizes of the workspace of a backward pass, in elements of float32: gradients, blocks, width.
    pub fn backward_workspace(self, rows: u64, width: u64, multiprocessors: u64) -> [u64; 3] {
        let blocks = match self.blocks_of(width) {
            Some(blocks) => blocks * multiprocessors,
            None => rows.min(GENERAL_BLOCKS * multiprocessors),
        };
        [self.gradients(), blocks, width]
    }

    fn gradients(self) -> u64 {
        match self {
            Self::Layer => 2,
            Self::Rms => 1,
        }
    }

    /// How many blocks of the kernel for this width a multiprocessor runs at once, as threads and shared memory allow.
    /// `None` for a width without a kernel of its own.
    fn blocks_of(self, width: u64) -> Option<u64> {
        match (self, width) {
            (Self::Layer, 768 | 1536 | 2048 | 2304 | 3072) | (Self::Rms, 512 | 768 | 2048) => {
                Some(16)
            }
            (Self::Layer, 3840) => Some(14),
            (Self::Layer | Self::Rms, 1024 | 4096) => Some(13),
            (Self::Layer, 5120) => Some(10),
            (Self::Layer, 6144 | 8192 | 10240) => Some(8),
            (Self::Rms, 8192) => Some(6),
            (Self::Layer, 12288 | 14336 | 16384) => Some(4),
            (Self::Layer | Self::Rms, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: u64 = 132;

    #[test]
    fn a_width_with_a_kernel_of_its_own_fills_the_gpu() {
        let table = [
            (Norm::Layer, 768, 16),
            (Norm::Layer, 1024, 13),
            (Norm::Layer, 1536, 16),
            (Norm::Layer, 2048, 16),
            (Norm::Layer, 2304, 16),
            (Norm::Layer, 3072, 16),
            (Norm::Layer, 3840, 14),
            (Norm::Layer, 4096, 13),
            (Norm::Layer, 5120, 10),
            (Norm::Layer, 6144, 8),
            (Norm::Layer, 8192, 8),
            (Norm::Layer, 10240, 8),
            (Norm::Layer, 12288, 4),
            (Norm::Layer, 14336, 4),
            (Norm::Layer, 16384, 4),
            (Norm::Rms, 512, 16),
            (Norm::Rms, 768, 16),
            (Norm::Rms, 1024, 13),
            (Norm::Rms, 2048, 16),
            (Norm::Rms, 4096, 13),
            (Norm::Rms, 8192, 6),
        ];
        for (norm, width, blocks) in table {
            let [_, found, _] = norm.backward_workspace(1, width, H200);
            assert_eq!(found, blocks * H200, "{norm:?} {width}");
        }
    }

    #[test]
    fn any_other_width_has_a_block_for_each_row_up_to_a_full_gpu() {
        assert_eq!(Norm::Layer.backward_workspace(1024, 512, H200), [2, 1024, 512]);
        assert_eq!(Norm::Rms.backward_workspace(1 << 20, 1000, H200), [1, 2112, 1000]);
    }
}
