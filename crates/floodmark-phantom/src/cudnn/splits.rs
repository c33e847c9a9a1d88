//! How a convolution's sums are split among multiprocessors, and the workspace that this takes.
//!
//! For compute capability 9.0 cuDNN plans without a device as for [`PLANNED_FOR`] multiprocessors,
//! regardless of the description. Kernels with the knobs that [`super::plan`] reads give tiles of the
//! product to clusters of multiprocessors, wave after wave; what is left for the last wave is too little
//! for all of them, so its sums are split, and the parts meet in the workspace. This is a model of that,
//! which takes the workspace from the number that was planned for to the device's own:
//!
//! - Rows and columns of the product are cut into tiles ([`TILES`]), the columns of a filter's gradient for
//!   each place of the filter by itself, and tiles into clusters. The sum of a tile is as long as the
//!   product's depth, in steps of 32 or 64 terms ([`Choices::depth`]).
//! - If `left` clusters of tiles are left for `all` clusters of multiprocessors that run at once, each may be split
//!   in `all / left`. How many of these pay is in [`Tile`]. In bf16 splitting costs eight times as many terms as in
//!   half or in float.
//! - Each part takes a tile of floats. Parts meet two by two, and each meeting takes a counter of 4 bytes.
//!   There are 159 bytes more. Three waves or more of tiles take a counter, too: 4 bytes, or 131 when
//!   nothing is split.
//!
//! It was found by asking cuDNN 9.19 for the workspace of many convolutions with the documented attribute
//! `CUDNN_ATTR_ENGINE_SM_COUNT_TARGET` set to 1 to 18 (`bench/fixtures/convolution_plans.py`). Of 23,000 random
//! convolutions of an H200 whose kernels are of this family it gives the workspace of 99 %: see
//! `bench/results/convolution-plans.md`. The examined misses are where one more part begins to pay.
//!
//! Limits: where the model does not explain what was planned, the plan is left alone, and so are kernels with
//! other knobs or tiles, strided gradients of data and workspaces above 4 GiB. The model assumes that the
//! heuristics choose the same kernel on the device: of the 59,053 kernels that were compared all of this
//! family are the same. How many clusters run at once differs from one GPU to the next of the same kind.

use super::plan::{Choices, Convolution, Direction, ExecutionPlan, Number};
use floodmark_phantom_control::Settings;

/// The compute capability of the modelled devices.
pub(super) const CAPABILITY: (i32, i32) = (9, 0);

/// The number of multiprocessors that cuDNN plans for without a device.
const PLANNED_FOR: u64 = 18;

/// Costs of splitting are in steps of this many terms.
const STEP: u64 = 32;

/// Bytes of a part's number, and of a counter.
const FLOAT: u64 = 4;

/// The channels of a copy of a tensor are padded to a multiple of this many bytes.
const ALIGNMENT: u64 = 16;

/// A tile, and when it pays to split its sum, in steps of [`STEP`] terms of one tile's sum.
#[derive(Clone, Copy, Debug)]
struct Tile {
    rows: u64,
    columns: u64,
    /// In a wave of its own: steps that the first meeting of two parts costs, and each one after it.
    meeting: (u64, u64),
    /// After full waves: the least steps for up to 2, 4, 8 and 16 parts.
    least: [u64; 4],
    /// Hundredths of a wave by which splitting slows down each wave.
    slower: u64,
}

const fn tile(rows: u64, columns: u64, meeting: u64, least: [u64; 4]) -> Tile {
    Tile { rows, columns, meeting: (meeting, meeting), least, slower: 0 }
}

/// The tiles by cuDNN's number of them.
const TILES: [(u64, Tile); 14] = [
    (0, tile(128, 128, 14, [14, 27, 42, 57])),
    (1, Tile { meeting: (20, 16), slower: 9, ..tile(128, 64, 16, [17, 31, 47, 65]) }),
    // Kernels with tiles 2 and 8 were never seen to split.
    (2, tile(128, 32, 14, [14, 27, 42, 57])),
    (3, tile(256, 128, 12, [12, 24, 37, 50])),
    (4, tile(256, 64, 14, [14, 27, 42, 57])),
    (5, tile(64, 64, 25, [22, 46, 73, 101])),
    (6, tile(128, 256, 12, [12, 24, 37, 50])),
    (7, tile(64, 128, 18, [16, 33, 53, 72])),
    (8, tile(64, 32, 14, [14, 27, 42, 57])),
    (9, tile(64, 256, 14, [14, 27, 42, 57])),
    (16, tile(256, 32, 18, [16, 33, 53, 72])),
    (18, tile(64, 192, 15, [15, 29, 45, 62])),
    (19, tile(128, 192, 12, [13, 25, 38, 52])),
    (20, tile(256, 96, 12, [12, 24, 37, 50])),
];

/// The workspace of a plan on the device.
pub(super) fn on_device(plan: &str, planned: u64, device: &Settings) -> u64 {
    let clusters = |size: u64| {
        let all = usize::try_from(size).map_or(0, |size| device.clusters_of(size));
        u64::try_from(all).unwrap_or(0)
    };
    ExecutionPlan::read(plan).and_then(|plan| moved(&plan, planned, clusters)).unwrap_or(planned)
}

/// `clusters` says how many clusters of a size run at once.
fn moved(plan: &ExecutionPlan, planned: u64, clusters: impl Fn(u64) -> u64) -> Option<u64> {
    let product = Product::of_convolution(&plan.convolution, plan.choices)?;
    let copies = planned.checked_sub(product.workspace(PLANNED_FOR / product.size)?)?;
    let explained = copies_of(&plan.convolution).contains(&copies);
    Some(copies + product.workspace(clusters(product.size)).filter(|_| explained)?)
}

/// The bytes of copies of tensors in another layout, or with padded channels: with the filter or
/// without it.
fn copies_of(convolution: &Convolution) -> [u64; 2] {
    let Convolution { number, channels_last, input, filter, output, .. } = convolution;
    let channels = |sizes: &[u64]| sizes.get(1).copied().unwrap_or(1);
    let padded = |count: u64| count.next_multiple_of(ALIGNMENT / number.bytes());
    let bytes = |sizes: &[u64]| {
        let whole = number.bytes() * sizes.iter().product::<u64>();
        whole / channels(sizes) * padded(channels(sizes))
    };
    let is_copied =
        |sizes: &&Vec<u64>| !channels_last || padded(channels(sizes)) != channels(sizes);
    let data: u64 = [input, output].into_iter().filter(is_copied).map(|sizes| bytes(sizes)).sum();
    if data == 0 {
        return [0, 0];
    }
    let outer = filter.first().copied().unwrap_or(1);
    let data = data + ALIGNMENT;
    [data, data + bytes(filter) / outer * padded(outer)]
}

/// A convolution as a product of matrices, in clusters of tiles.
#[derive(Clone, Copy, Debug)]
struct Product {
    tile: Tile,
    clusters: u64,
    /// Tiles of a cluster.
    size: u64,
    /// Steps of `depth` terms.
    steps: u64,
    depth: u64,
    /// How many times as much splitting costs as in float.
    cost: u64,
    may_split: bool,
}

impl Product {
    fn of_convolution(convolution: &Convolution, choices: Choices) -> Option<Self> {
        let Convolution { direction, number, input, filter, output, strided, .. } = convolution;
        let (&[outer, inner, ..], (wide, high)) = (filter.as_slice(), choices.cluster) else {
            return None;
        };
        let taps: u64 = filter.iter().skip(2).product();
        let places = |sizes: &[u64]| sizes.iter().product::<u64>() / sizes.get(1).unwrap_or(&1);
        let tile = tile_of(convolution, choices)?;
        let depth = choices.depth;
        let columns = |count: u64| count.div_ceil(tile.columns);
        let (rows, columns, steps) = match direction {
            Direction::Data if *strided => return None,
            Direction::Data => (places(input), columns(inner), outer.div_ceil(depth) * taps),
            Direction::Forward => (places(output), columns(outer), inner.div_ceil(depth) * taps),
            Direction::Filter => (outer, columns(inner) * taps, places(output).div_ceil(depth)),
        };
        let clusters = rows.div_ceil(tile.rows).div_ceil(wide) * columns.div_ceil(high);
        let may_split = choices.may_split;
        let cost = if *number == Number::BFloat16 { 8 } else { 1 };
        Some(Self { tile, clusters, size: wide * high, steps, depth, cost, may_split })
    }

    /// The workspace of splitting when `all` clusters run at once.
    fn workspace(&self, all: u64) -> Option<u64> {
        let waves = self.clusters.div_ceil(all.max(1));
        let full = if self.clusters > all { self.clusters.checked_div(all)? } else { 0 };
        let left = self.clusters - full * all;
        let counter = if waves > 2 { FLOAT } else { 0 };
        let parts = if all > 0 { self.parts(full, all.checked_div(left).unwrap_or(1)) } else { 1 };
        if parts < 2 {
            return (all > 0).then_some(if waves > 2 { 131 } else { 0 });
        }
        let each = FLOAT * (parts * self.tile.rows * self.tile.columns + meetings(parts));
        Some(159 + counter + left * self.size * each)
    }

    /// In how many parts a sum is split after that many full waves, where `most` are possible.
    fn parts(&self, full: u64, most: u64) -> u64 {
        let parts = match full {
            _ if !self.may_split || most < 2 => 1,
            0 => self.parts_alone(most),
            _ => self.parts_after(full, most),
        };
        // Parts have equally many steps, so there may be enough of them before all are used.
        self.steps.div_ceil(self.steps.div_ceil(parts))
    }

    /// A cost in terms.
    fn terms(&self, steps: u64) -> u64 {
        steps * STEP * self.cost
    }

    /// Where there is one wave: as many as have 33 steps; if these are few, as many as are fastest.
    fn parts_alone(&self, most: u64) -> u64 {
        let long = most.min(self.steps / 33);
        let (first, further) = self.tile.meeting;
        let cost = |&parts: &u64| {
            let meetings = if parts > 1 { first + further * (levels(parts) - 1) } else { 0 };
            self.steps.div_ceil(parts) * self.depth + self.terms(meetings)
        };
        if long > 8 { long } else { (1..=most).rev().min_by_key(cost).unwrap_or(1) }
    }

    /// After full waves: as many as the steps are enough for, if the other waves do not lose more.
    fn parts_after(&self, full: u64, most: u64) -> u64 {
        let Tile { least, slower, .. } = self.tile;
        let terms = self.steps * self.depth;
        let known = least.iter().filter(|&&least| self.terms(least) <= terms).count() as u64;
        let [.., before, last] = least.map(|least| self.terms(least));
        let further = terms.saturating_sub(last) / (last - before);
        let parts = most.min(1 << (known + further).min(32));
        let gained = 100 * (parts - 1) / parts;
        if gained > slower * (full + 1) { parts } else { 1 }
    }
}

fn tile_of(convolution: &Convolution, choices: Choices) -> Option<Tile> {
    let &(_, tile) = TILES.iter().find(|&&(known, _)| known == choices.tile)?;
    // Other kernels have the tile of 128 by 64 with other costs: those of 64 by 128.
    let is_other = match convolution.number {
        Number::Float => convolution.direction == Direction::Data,
        Number::Half | Number::BFloat16 => choices.depth > STEP,
    };
    Some(if is_other && choices.tile == 1 {
        Tile { meeting: (18, 18), least: [16, 33, 53, 72], slower: 0, ..tile }
    } else {
        tile
    })
}

/// How often that many parts must meet two by two until one is left.
fn levels(parts: u64) -> u64 {
    u64::from(parts.next_power_of_two().trailing_zeros())
}

/// The meetings on all levels; a part that finds no other one is counted too.
fn meetings(parts: u64) -> u64 {
    (1..=levels(parts)).map(|level| parts.div_ceil(1 << level)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 3x3 convolution of 32 images that keeps their size, or halves it.
    fn convolution(
        direction: Direction,
        channels: [u64; 2],
        side: u64,
        stride: u64,
    ) -> Convolution {
        let [inner, outer] = channels;
        Convolution {
            direction,
            number: Number::Float,
            channels_last: false,
            input: vec![32, inner, side, side],
            filter: vec![outer, inner, 3, 3],
            output: vec![32, outer, side / stride, side / stride],
            strided: stride != 1,
        }
    }

    fn pointwise(direction: Direction, channels: [u64; 2], side: u64) -> Convolution {
        let [inner, outer] = channels;
        let filter = vec![outer, inner, 1, 1];
        Convolution { filter, ..convolution(direction, channels, side, 2) }
    }

    fn choices(tile: u64, cluster: (u64, u64)) -> Choices {
        Choices { tile, depth: 32, cluster, may_split: true }
    }

    /// How many clusters of a size an H200 runs at once.
    fn h200(size: u64) -> u64 {
        let clusters = [132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 7, 7];
        clusters[usize::try_from(size).unwrap() - 1]
    }

    fn on_h200(convolution: Convolution, choices: Choices, planned: u64) -> Option<u64> {
        moved(&ExecutionPlan { convolution, choices }, planned, h200)
    }

    /// A row of the fixture: the plan, the workspace planned for 18 multiprocessors and the H200's own.
    fn recorded(line: &str) -> (ExecutionPlan, u64, u64) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse().unwrap();
        let sizes = |at: usize| fields[at].split('x').map(|size| size.parse().unwrap()).collect();
        let convolution = Convolution {
            direction: match fields[0] {
                "forward" => Direction::Forward,
                "data" => Direction::Data,
                _ => Direction::Filter,
            },
            number: match fields[1] {
                "float" => Number::Float,
                "half" => Number::Half,
                _ => Number::BFloat16,
            },
            channels_last: fields[2] == "1",
            input: sizes(3),
            filter: sizes(4),
            output: sizes(5),
            strided: fields[6] == "1",
        };
        let choices = Choices {
            tile: number(7),
            depth: number(8),
            cluster: (number(9), number(10)),
            may_split: fields[11] == "1",
        };
        (ExecutionPlan { convolution, choices }, number(12), number(13))
    }

    /// 360 of the 400 are not what cuDNN plans without a device.
    #[test]
    fn workspaces_are_those_of_an_h200() {
        let rows = include_str!("../../../../fixtures/h200_convolutions.csv");
        let mut wrong = Vec::new();
        for line in rows.lines().skip(1) {
            let (plan, planned, recorded) = recorded(line);
            let found = moved(&plan, planned, h200).unwrap_or(planned);
            if found != recorded {
                wrong.push(format!("{line}: {found}"));
            }
        }
        assert!(wrong.len() <= 8, "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn gradients_of_filters_take_what_an_h200_recorded() {
        let filter = Direction::Filter;
        let (single, pair) = ((1, 1), (1, 2));
        // The workspace planned for 18, and the one recorded with 132.
        let all = [
            (convolution(filter, [64, 64], 56, 1), 5, single, 51_822_803, 53_592_743),
            (convolution(filter, [64, 128], 56, 2), 1, pair, 38_830_096, 43_090_655),
            (convolution(filter, [128, 128], 28, 1), 0, single, 27_459_795, 34_538_151),
            (convolution(filter, [128, 256], 28, 2), 1, pair, 20_447_248, 23_986_783),
            (convolution(filter, [256, 256], 14, 1), 0, single, 15_204_368, 22_282_847),
            (convolution(filter, [256, 512], 14, 2), 0, single, 14_352_531, 14_352_400),
            (pointwise(filter, [128, 256], 28), 1, pair, 19_792_095, 20_316_447),
        ];
        for (convolution, tile, cluster, planned, recorded) in all {
            let found = on_h200(convolution.clone(), choices(tile, cluster), planned);
            assert_eq!(found, Some(recorded), "{convolution:?}");
        }
    }

    #[test]
    fn tiles_after_a_full_wave_are_split_as_far_as_it_pays() {
        // 144 tiles: 12 are left, and 11 parts of each would be possible. The sum has 49 steps.
        let convolution = convolution(Direction::Filter, [512, 512], 7, 1);
        assert_eq!(on_h200(convolution, choices(0, (1, 1)), 15_859_859), Some(21_365_247));
    }

    #[test]
    fn forward_and_data_take_what_an_h200_recorded() {
        let (forward, data) = (Direction::Forward, Direction::Data);
        let all = [
            (convolution(forward, [128, 128], 28, 1), 0, (8, 1), 27_328_723, 26_279_952),
            (convolution(forward, [128, 256], 28, 2), 0, (1, 2), 21_496_019, 20_447_248),
            (convolution(forward, [256, 512], 14, 2), 9, (4, 1), 15_401_171, 21_692_815),
            (convolution(data, [512, 512], 7, 1), 1, (1, 3), 16_449_751, 15_859_728),
        ];
        for (convolution, tile, cluster, planned, recorded) in all {
            let found = on_h200(convolution.clone(), choices(tile, cluster), planned);
            assert_eq!(found, Some(recorded), "{convolution:?}");
        }
    }

    #[test]
    fn a_kernel_that_may_not_split_has_a_counter_for_many_waves_alone() {
        let never = Choices { may_split: false, ..choices(0, (1, 1)) };
        let convolution = convolution(Direction::Data, [128, 128], 28, 1);
        assert_eq!(on_h200(convolution, never, 26_280_083), Some(26_279_952));
    }

    #[test]
    fn plans_for_fewer_multiprocessors_match_cudnn() {
        // 9 tiles of 64 by 64, and cuDNN's own workspace less the copies for each target.
        let convolution = convolution(Direction::Filter, [64, 64], 56, 1);
        let product =
            Product::of_convolution(&convolution, choices(5, (1, 1))).expect("a known tile");
        let planned = [131, 32_935, 131, 65_711, 0, 98_475, 98_487, 131_259, 0];
        for (target, planned) in (1..).zip(planned) {
            assert_eq!(product.workspace(target), Some(planned), "{target}");
        }
        assert_eq!(product.workspace(18), Some(295_107));
    }

    #[test]
    fn a_plan_that_is_not_explained_is_left_alone() {
        let convolution = convolution(Direction::Filter, [64, 64], 56, 1);
        assert_eq!(on_h200(convolution.clone(), choices(5, (1, 1)), 51_822_804), None);
        assert_eq!(on_h200(convolution.clone(), choices(5, (1, 1)), 7), None);
        assert_eq!(on_h200(convolution, choices(2, (1, 1)), 51_822_803), None, "no such tile");
        let strided = self::convolution(Direction::Data, [64, 128], 56, 2);
        assert_eq!(on_h200(strided, choices(0, (1, 1)), 38_830_227), None);
        let device = Settings::usual((9, 0), 150_000_000_000);
        assert_eq!(on_device("not a plan", 5, &device), 5);
    }
}
