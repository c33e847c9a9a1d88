//! A recurrent network and a batch of sequences, as a program describes them to cuDNN.

use super::algorithm::Algorithm;

/// The kind of cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cell {
    /// `nn.RNN(nonlinearity="relu")`.
    Relu,
    /// `nn.RNN`.
    #[default]
    Tanh,
    /// `nn.LSTM`.
    Lstm,
    /// `nn.GRU`.
    Gru,
}

impl Cell {
    /// Matrices of the input, and as many of the state, in one cell.
    pub fn gates(self) -> u64 {
        match self {
            Self::Relu | Self::Tanh => 1,
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    /// Values of the gates that backward needs: a GRU keeps those of the input and of the state apart.
    pub(crate) fn kept_gates(self) -> u128 {
        match self {
            Self::Gru => 6,
            Self::Relu | Self::Tanh | Self::Lstm => u128::from(self.gates()),
        }
    }
}

/// The type of weights, inputs and outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Number {
    /// `float16`.
    Half,
    /// `bfloat16`.
    BFloat16,
    /// `float32`.
    #[default]
    Float,
    /// `float64`.
    Double,
}

impl Number {
    /// The bytes of one number.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Half | Self::BFloat16 => 2,
            Self::Float => 4,
            Self::Double => 8,
        }
    }
}

/// The kind of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Forward alone (`CUDNN_FWD_MODE_INFERENCE`).
    Inference,
    /// Forward and backward (`CUDNN_FWD_MODE_TRAINING`).
    Training,
}

/// A network (`cudnnSetRNNDescriptor_v8`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Network {
    /// The kind of cell.
    pub cell: Cell,
    /// The algorithm that the program requests.
    pub algorithm: Algorithm,
    /// The type of weights, inputs and outputs.
    pub number: Number,
    /// Biases of a gate: 0, 1 (of the input or of the state) or 2.
    pub biases: u64,
    /// Whether a layer runs in both directions.
    pub is_bidirectional: bool,
    /// The width of the input.
    pub input: u64,
    /// The width of the state.
    pub hidden: u64,
    /// The width of the output: `proj_size` if there is one, or else `hidden`.
    pub output: u64,
    /// Stacked layers.
    pub layers: u64,
    /// Whether outputs are dropped between layers.
    pub has_dropout: bool,
}

/// A batch of sequences (`cudnnSetRNNDataDescriptor`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Batch {
    /// The length of the longest sequence.
    pub steps: u64,
    /// The number of sequences.
    pub sequences: u64,
    /// The sum of their lengths.
    pub total_steps: u64,
    /// Whether the sequences are packed, without padding (`PackedSequence`).
    pub is_packed: bool,
}

impl Batch {
    /// Sequences of equal length, padded.
    pub fn padded(steps: u64, sequences: u64) -> Self {
        Self { steps, sequences, total_steps: steps.saturating_mul(sequences), is_packed: false }
    }
}

impl Network {
    /// 1, or 2 for a bidirectional network.
    pub fn directions(&self) -> u64 {
        1 + u64::from(self.is_bidirectional)
    }

    /// Layers in each direction (cuDNN's pseudo layers).
    pub fn pseudo_layers(&self) -> u64 {
        self.layers * self.directions()
    }

    /// Whether the output is projected (`proj_size`).
    pub fn has_projection(&self) -> bool {
        self.output != self.hidden
    }

    /// The width of the input of a pseudo layer.
    pub fn input_of(&self, pseudo_layer: u64) -> u64 {
        if pseudo_layer < self.directions() { self.input } else { self.output * self.directions() }
    }

    /// Numbers in the matrices of a pseudo layer.
    pub fn matrices_of(&self, pseudo_layer: u64) -> u64 {
        let rows = self.input_of(pseudo_layer) + self.output;
        let gates = (self.cell.gates() * self.hidden).saturating_mul(rows);
        let projection = if self.has_projection() { self.output * self.hidden } else { 0 };
        gates.saturating_add(projection)
    }

    /// Numbers in all matrices. Layers above the first are equal.
    pub fn matrices(&self) -> u64 {
        let upper = self.matrices_of(self.directions());
        let above = self.layers.saturating_sub(1).saturating_mul(upper);
        self.matrices_of(0).saturating_add(above).saturating_mul(self.directions())
    }

    /// The bytes of all weights (`cudnnGetRNNWeightSpaceSize`): the matrices of all layers, then the biases.
    pub fn weight_bytes(&self) -> u64 {
        let of_layer = self.cell.gates() * self.biases * self.hidden;
        let biases = self.pseudo_layers().saturating_mul(of_layer);
        self.matrices().saturating_add(biases).saturating_mul(self.number.bytes())
    }

    /// Whether cuDNN supports this network with its algorithm; otherwise it answers `NOT_SUPPORTED`.
    pub fn is_supported(&self) -> bool {
        let is_plain = matches!(self.cell, Cell::Relu | Cell::Tanh);
        let widest = match self.algorithm {
            Algorithm::Standard => return true,
            Algorithm::PersistStaticSmallHidden => [192, 384],
            // The widest recorded state of each kind.
            Algorithm::PersistStatic => [1536, 2200],
        };
        let has_kernel = self.biases == 2 && self.number != Number::Double;
        has_kernel && self.hidden <= widest[usize::from(is_plain)]
    }
}

/// Bytes of `count` times `rows` by `width` numbers, on cuDNN's boundary.
pub(crate) fn part(network: &Network, count: u128, rows: u64, width: u64) -> u128 {
    let numbers = count.saturating_mul(u128::from(rows)).saturating_mul(u128::from(width));
    aligned(numbers.saturating_mul(u128::from(network.number.bytes())))
}

/// Every part of a buffer begins on a multiple of 32 bytes.
pub(crate) fn aligned(bytes: u128) -> u128 {
    // No buffer has this size. The bound keeps sums of parts in range.
    bytes.min(u128::from(u64::MAX)).next_multiple_of(32)
}

/// A size, as cuDNN gives it.
pub(crate) fn size(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_matrices_and_biases() {
        let lstm = Network {
            cell: Cell::Lstm,
            biases: 2,
            input: 512,
            hidden: 512,
            output: 512,
            layers: 2,
            ..Network::default()
        };
        assert_eq!(lstm.weight_bytes(), 16_809_984);
        assert_eq!(Network { is_bidirectional: true, ..lstm }.weight_bytes(), 42_008_576);
    }

    #[test]
    fn a_persistent_algorithm_has_a_widest_state() {
        let network = |cell, hidden| Network {
            cell,
            algorithm: Algorithm::PersistStaticSmallHidden,
            biases: 2,
            input: 8,
            hidden,
            output: hidden,
            layers: 1,
            ..Network::default()
        };
        assert!(network(Cell::Tanh, 384).is_supported());
        assert!(!network(Cell::Tanh, 385).is_supported());
        assert!(network(Cell::Gru, 192).is_supported());
        assert!(!network(Cell::Gru, 193).is_supported());
    }
}
