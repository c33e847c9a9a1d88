//! How a convolution's sums are split among multiprocessors, and the workspace that this takes.
//!
//! For compute capability 9.0 cuDNN plans without a device as for [`PLANNED_FOR`] multiprocessors, whatever
//! the description says. Kernels with the knobs that [`super::plan`] reads give tiles of the product to
//! clusters of multiprocessors, wave after wave; what is left for the last wave is too little for all of
//! them, so its sums are split, and the parts meet in the workspace. This is a model of that, which takes
//! the workspace from the number that was planned for to the device's own:
//!
//! - Rows and columns of the product are cut into tiles ([`TILES`]), the columns of a filter's gradient for
//!   each place of the filter by itself, and tiles into clusters. The sum of a tile is as long as the
//!   product's depth, in steps of [`STEP`].
//! - If `left` clusters of tiles are left for `all` clusters of multiprocessors, each may be split in
//!   `all / left`. How many of these pay is in [`Tile`].
//! - Each part takes a tile of floats. Parts meet two by two, and each meeting takes a counter of 4 bytes.
//!   There are 159 bytes more. Three waves or more of tiles take a counter, too: 4 bytes, or 131 when
//!   nothing is split.
//!
//! It was found by asking cuDNN 9.19 for the workspace of many convolutions with the documented attribute
//! `CUDNN_ATTR_ENGINE_SM_COUNT_TARGET` set to 1 to 18. Of 20,348 workspaces of random convolutions that it was
//! not fitted to it tells all but 24; misses that were looked at are where one more part begins to pay. For 132
//! it tells all workspaces of such kernels in a recording of ResNet-18 on an H200, which was at hand when it
//! was made.
//!
//! Limits: where the model does not tell what was planned, the plan is left alone, and so are kernels with
//! other knobs or tiles and strided gradients of data. That the heuristics choose the same kernel on the
//! device is taken for granted. So is that as many clusters run at once as their size goes into the number of
//! multiprocessors: for pairs an H200 recorded that, but in a recording of ResNet-50 in bf16 it had 39 to 41
//! clusters of 3, and 12 to 15 of 8. Kernels for bf16 are left alone for this reason, because splitting
//! costs them four times as many steps, and because some of that recording are not those that are planned.

use super::plan::{Choices, Convolution, Direction, Plan};

/// The compute capability of the devices that this is about.
pub(super) const CAPABILITY: (i32, i32) = (9, 0);

/// As many multiprocessors cuDNN plans for where it sees no device.
const PLANNED_FOR: u64 = 18;

/// Terms of a sum that a kernel takes at a time.
const STEP: u64 = 32;

/// Bytes of a number, and of a counter.
const FLOAT: u64 = 4;

/// A tile, and when it pays to split its sum. The steps are those of one tile's sum.
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
const TILES: [(u64, Tile); 9] = [
    (0, tile(128, 128, 14, [14, 27, 42, 57])),
    (1, Tile { meeting: (20, 16), slower: 9, ..tile(128, 64, 16, [17, 31, 47, 65]) }),
    (3, tile(256, 128, 12, [12, 24, 37, 50])),
    (4, tile(256, 64, 14, [14, 27, 42, 57])),
    (5, tile(64, 64, 25, [22, 46, 73, 101])),
    (7, tile(64, 128, 18, [16, 33, 53, 72])),
    (9, tile(64, 256, 14, [14, 27, 42, 57])),
    (18, tile(64, 192, 15, [15, 29, 45, 62])),
    (19, tile(128, 192, 12, [13, 25, 38, 52])),
];

/// The workspace of a plan on a device with that many multiprocessors.
pub(super) fn on_device(plan: &str, planned: u64, multiprocessors: u64) -> u64 {
    Plan::read(plan).and_then(|plan| moved(&plan, planned, multiprocessors)).unwrap_or(planned)
}

fn moved(plan: &Plan, planned: u64, multiprocessors: u64) -> Option<u64> {
    let product = Product::of_convolution(&plan.convolution, plan.choices)?;
    let copies = planned.checked_sub(product.workspace(PLANNED_FOR)?)?;
    let explained = copies_of(&plan.convolution).contains(&copies);
    Some(copies + product.workspace(multiprocessors).filter(|_| explained)?)
}

/// What copies of tensors in another layout may take: none, all, or all but the filter.
fn copies_of(convolution: &Convolution) -> [u64; 3] {
    let bytes = |sizes: &[u64]| FLOAT * sizes.iter().product::<u64>();
    let data = bytes(&convolution.input) + bytes(&convolution.output) + 16;
    [0, data, data + bytes(&convolution.filter)]
}

/// A convolution as a product of matrices, in clusters of tiles.
#[derive(Clone, Copy, Debug)]
struct Product {
    tile: Tile,
    clusters: u64,
    /// Tiles of a cluster.
    size: u64,
    steps: u64,
    may_split: bool,
}

impl Product {
    fn of_convolution(convolution: &Convolution, choices: Choices) -> Option<Self> {
        let Convolution { direction, input, filter, output, strided, .. } = convolution;
        let (&[outer, inner, ..], (wide, high)) = (filter.as_slice(), choices.cluster) else {
            return None;
        };
        let taps: u64 = filter.iter().skip(2).product();
        let places = |sizes: &[u64]| sizes.iter().product::<u64>() / sizes.get(1).unwrap_or(&1);
        let tile = tile_of(*direction, choices.tile)?;
        let columns = |count: u64| count.div_ceil(tile.columns);
        let (rows, columns, steps) = match direction {
            Direction::Data if *strided => return None,
            Direction::Data => (places(input), columns(inner), outer.div_ceil(STEP) * taps),
            Direction::Forward => (places(output), columns(outer), inner.div_ceil(STEP) * taps),
            Direction::Filter => (outer, columns(inner) * taps, places(output).div_ceil(STEP)),
        };
        let clusters = rows.div_ceil(tile.rows).div_ceil(wide) * columns.div_ceil(high);
        let may_split = choices.may_split;
        Some(Self { tile, clusters, size: wide * high, steps, may_split })
    }

    /// What splitting takes on that many multiprocessors.
    fn workspace(&self, multiprocessors: u64) -> Option<u64> {
        let all = multiprocessors / self.size;
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
        let wanted = match full {
            _ if !self.may_split || most < 2 => 1,
            0 => self.parts_alone(most),
            _ => self.parts_after(full, most),
        };
        // Parts have equally many steps, so there may be enough of them before all are used.
        self.steps.div_ceil(self.steps.div_ceil(wanted))
    }

    /// Where there is one wave: as many as have 33 steps; if these are few, as many as are fastest.
    fn parts_alone(&self, most: u64) -> u64 {
        let long = most.min(self.steps / 33);
        let (first, further) = self.tile.meeting;
        let cost = |&parts: &u64| {
            let meetings = if parts > 1 { first + further * (levels(parts) - 1) } else { 0 };
            self.steps.div_ceil(parts) + meetings
        };
        if long > 8 { long } else { (1..=most).rev().min_by_key(cost).unwrap_or(1) }
    }

    /// After full waves: as many as the steps are enough for, if the other waves do not lose more.
    fn parts_after(&self, full: u64, most: u64) -> u64 {
        let Tile { least: [.., before, last], slower, .. } = self.tile;
        let known = self.tile.least.iter().filter(|&&least| least <= self.steps).count() as u64;
        let further = self.steps.saturating_sub(last) / (last - before);
        let parts = most.min(1 << (known + further).min(32));
        let gained = 100 * (parts - 1) / parts;
        if gained > slower * (full + 1) { parts } else { 1 }
    }
}

fn tile_of(direction: Direction, number: u64) -> Option<Tile> {
    let &(_, tile) = TILES.iter().find(|&&(known, _)| known == number)?;
    // Kernels for gradients of data have the tile of 128 by 64 with other costs: those of 64 by 128.
    Some(if direction == Direction::Data && number == 1 {
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
        Choices { tile, cluster, may_split: true }
    }

    fn on_h200(convolution: Convolution, choices: Choices, planned: u64) -> Option<u64> {
        moved(&Plan { convolution, choices }, planned, 132)
    }

    #[test]
    fn gradients_of_filters_take_what_an_h200_recorded() {
        let filter = Direction::Filter;
        let (single, pair) = ((1, 1), (1, 2));
        // What was planned for 18, and what was recorded with 132.
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
    fn what_is_left_after_a_full_wave_is_split_as_far_as_it_pays() {
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
    fn fewer_multiprocessors_are_told_as_cudnn_plans_for_them() {
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
        assert_eq!(on_device("not a plan", 5, 132), 5);
    }
}
