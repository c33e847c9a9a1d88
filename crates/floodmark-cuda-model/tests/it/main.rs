//! Compares every formula with the answers of cuDNN 9.19 on an H200 (`fixtures/rnn/sizes.csv`).

mod fourier;

use floodmark_cuda_model::recurrent::{Algorithm, Batch, Cell, Network, Number, Pass};

/// One recorded network with its four sizes; `None` for a network that cuDNN refused.
struct RecordedNetwork {
    text: String,
    network: Network,
    batch: Batch,
    weights: Option<u64>,
    sizes: Option<[u64; 3]>,
}

fn recorded() -> Vec<RecordedNetwork> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/rnn/sizes.csv");
    let text = std::fs::read_to_string(path).expect("the recording");
    text.lines().skip(1).map(row).collect()
}

fn row(line: &str) -> RecordedNetwork {
    let fields: Vec<&str> = line.split(',').collect();
    let number = |at: usize| fields[at].parse::<u64>().ok();
    let given = |at: usize| number(at).expect("a number");
    let hidden = given(6);
    let network = Network {
        algorithm: match fields[0] {
            "standard" => Algorithm::Standard,
            "static" => Algorithm::PersistStatic,
            _ => Algorithm::PersistStaticSmallHidden,
        },
        cell: match fields[1] {
            "relu" => Cell::Relu,
            "tanh" => Cell::Tanh,
            "lstm" => Cell::Lstm,
            _ => Cell::Gru,
        },
        biases: given(2),
        is_bidirectional: given(3) == 1,
        number: match fields[4] {
            "float16" => Number::Half,
            "bfloat16" => Number::BFloat16,
            "float32" => Number::Float,
            _ => Number::Double,
        },
        input: given(5),
        hidden,
        output: if given(7) == 0 { hidden } else { given(7) },
        layers: given(8),
        has_dropout: given(9) == 1,
    };
    let batch = Batch {
        is_packed: given(10) == 1,
        steps: given(11),
        sequences: given(12),
        total_steps: given(13),
    };
    let sizes = number(15).map(|training| [training, given(16), given(17)]);
    RecordedNetwork { text: line.to_owned(), network, batch, weights: number(14), sizes }
}

#[test]
fn sizes_are_those_of_an_h200() {
    let rows = recorded();
    assert!(rows.len() > 1000, "{} rows", rows.len());
    for RecordedNetwork { text, network, batch, weights, sizes } in rows {
        if let Some(weights) = weights {
            assert_eq!(network.weight_bytes(), weights, "{text}");
        }
        assert_eq!(network.is_supported(), sizes.is_some(), "{text}");
        let Some(sizes) = sizes else { continue };
        let ours = [
            network.workspace_bytes(&batch, Pass::Training),
            network.reserve_bytes(&batch),
            network.workspace_bytes(&batch, Pass::Inference),
        ];
        assert_eq!(ours, sizes, "{text}");
    }
}

#[test]
fn the_largest_descriptor_has_a_size() {
    let most = u64::from(i32::MAX.unsigned_abs());
    let network = Network {
        cell: Cell::Lstm,
        number: Number::Double,
        biases: 2,
        is_bidirectional: true,
        input: most,
        hidden: most,
        output: most,
        layers: most,
        has_dropout: true,
        ..Network::default()
    };
    let batch = Batch::padded(most, most);
    assert_eq!(network.workspace_bytes(&batch, Pass::Training), u64::MAX);
    assert_eq!(network.reserve_bytes(&batch), u64::MAX);
    assert_eq!(network.weight_bytes(), u64::MAX);
}
