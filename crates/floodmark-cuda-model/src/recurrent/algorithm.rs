//! cuDNN's algorithms, and the one that torch requests.

use super::network::{Batch, Cell, Network, Number};

/// An algorithm of cuDNN for recurrent networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// A kernel for each step (`CUDNN_RNN_ALGO_STANDARD`).
    #[default]
    Standard,
    /// One kernel for all steps (`CUDNN_RNN_ALGO_PERSIST_STATIC`).
    PersistStatic,
    /// The same, for narrow states (`CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H`).
    PersistStaticSmallHidden,
}

/// The properties of a GPU that the choice depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gpu {
    /// The compute capability: 90 for 9.0.
    pub capability: u32,
    /// The number of multiprocessors.
    pub multiprocessors: u32,
}

impl Algorithm {
    /// The algorithm that torch requests (`get_algo` in `ATen/native/cudnn/RNN.cpp`), for a forward or a
    /// backward call.
    pub fn chosen_by_torch(network: &Network, batch: &Batch, is_backward: bool, gpu: Gpu) -> Self {
        if network.has_projection() || batch.is_packed || network.number == Number::Double {
            return Self::Standard;
        }
        let is_plain = matches!(network.cell, Cell::Relu | Cell::Tanh);
        let narrow = match (is_plain, is_backward) {
            (true, false) => 384,
            (true, true) => 256,
            (false, false) => 192,
            (false, true) => 128,
        };
        if network.hidden <= narrow {
            Self::PersistStaticSmallHidden
        } else if network.number == Number::Half && persists(network, batch, gpu) {
            Self::PersistStatic
        } else {
            Self::Standard
        }
    }
}

/// Whether torch expects a persistent kernel to be faster.
fn persists(network: &Network, batch: &Batch, gpu: Gpu) -> bool {
    let fits = network.layers == 1
        && !network.is_bidirectional
        && network.hidden <= 1024
        && network.hidden.is_multiple_of(128)
        && network.input.is_multiple_of(128);
    let (sequences, steps) = (batch.sequences, batch.steps);
    fits && match gpu.capability {
        75 | ..70 => false,
        70..80 => {
            let is_usual = (sequences.is_multiple_of(16) && sequences != 80 && sequences != 112)
                || sequences == 8;
            let is_long = (steps >= 40 && sequences <= 128)
                || (steps >= 20 && sequences <= 96)
                || (steps >= 10 && sequences <= 32);
            is_usual && is_long
        }
        capability => {
            let has_kernel = match network.cell {
                Cell::Gru => false,
                Cell::Lstm => true,
                Cell::Relu | Cell::Tanh => sequences < 96 || network.hidden < 896,
            };
            let is_large = gpu.multiprocessors >= 98 && capability % 10 != 6;
            is_large && has_kernel && sequences.is_multiple_of(8) && sequences <= 128
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Gpu = Gpu { capability: 90, multiprocessors: 132 };

    fn lstm(hidden: u64, number: Number) -> Network {
        Network {
            cell: Cell::Lstm,
            number,
            input: 128,
            hidden,
            output: hidden,
            layers: 1,
            ..Network::default()
        }
    }

    #[test]
    fn narrow_states_have_kernels_of_their_own() {
        let batch = Batch::padded(50, 16);
        let chosen = |hidden, is_backward| {
            Algorithm::chosen_by_torch(&lstm(hidden, Number::Float), &batch, is_backward, H200)
        };
        assert_eq!(chosen(192, false), Algorithm::PersistStaticSmallHidden);
        assert_eq!(chosen(192, true), Algorithm::Standard);
        assert_eq!(chosen(193, false), Algorithm::Standard);
    }

    #[test]
    fn half_precision_persists_on_a_large_gpu() {
        let network = lstm(256, Number::Half);
        let batch = Batch::padded(50, 16);
        let small = Gpu { multiprocessors: 80, ..H200 };
        let chosen = |batch: &Batch, gpu| Algorithm::chosen_by_torch(&network, batch, false, gpu);
        assert_eq!(chosen(&batch, H200), Algorithm::PersistStatic);
        assert_eq!(chosen(&batch, small), Algorithm::Standard);
        assert_eq!(chosen(&Batch { is_packed: true, ..batch }, H200), Algorithm::Standard);
        assert_eq!(chosen(&Batch::padded(50, 12), H200), Algorithm::Standard);
    }
}
