//! A sum tree of the live blocks, which finds the block at a height in logarithmic time.

/// Children of a node.
const FAN: usize = 16;

/// Sizes of blocks in their order, with the sums of 16, of 256, … of them.
#[derive(Debug)]
pub struct SumTree {
    /// Level 0 holds the blocks; each is padded to whole nodes.
    levels: Vec<Vec<u64>>,
}

/// The pixel rows that a range of bytes covers: those with their middle in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rows {
    /// The byte at the bottom of the lowest row.
    pub bottom: i64,
    /// Rows in a byte.
    pub per_byte: f64,
    pub n: u32,
}

impl Rows {
    /// How many rows have their middle below a byte.
    pub fn below(&self, byte: u64) -> u32 {
        let rows = (byte as i64).saturating_sub(self.bottom) as f64 * self.per_byte + 0.5;
        // A cast cuts off what is below 0 and beyond the largest number.
        (rows as u32).min(self.n)
    }
}

impl SumTree {
    /// A tree of `n` blocks, all of size 0.
    pub fn new(n: usize) -> Self {
        let mut levels = Vec::new();
        let mut len = n.max(1);
        loop {
            levels.push(vec![0; len.next_multiple_of(FAN)]);
            if len <= FAN {
                break;
            }
            len = len.div_ceil(FAN);
        }
        Self { levels }
    }

    /// The size of a block.
    pub fn get(&self, block: usize) -> u64 {
        self.levels[0][block]
    }

    /// Changes the size of a block. Cost: O(levels).
    pub fn set(&mut self, block: usize, bytes: u64) {
        let change = bytes.wrapping_sub(self.levels[0][block]);
        let mut at = block;
        for level in &mut self.levels {
            level[at] = level[at].wrapping_add(change);
            at /= FAN;
        }
    }

    /// Sets all sizes at once. Cost: O(n).
    pub fn fill(&mut self, sizes: impl Iterator<Item = u64>) {
        for (place, bytes) in self.levels[0].iter_mut().zip(sizes) {
            *place = bytes;
        }
        for level in 1..self.levels.len() {
            let (below, above) = self.levels.split_at_mut(level);
            let nodes = below[level - 1].chunks(FAN).map(|node| node.iter().fold(0_u64, |sum, &x| sum.wrapping_add(x)));
            above[0].iter_mut().zip(nodes).for_each(|(place, sum)| *place = sum);
        }
    }

    /// Names the block of every row, from the bottom up: (block, first row, row after the last).
    ///
    /// Goes only into nodes that are higher than a row, so the cost is bounded by the rows and not by
    /// the blocks: a row that has many blocks gets the largest of the largest node in it.
    pub fn stack(&self, rows: &Rows, mut emit: impl FnMut(usize, u32, u32)) {
        self.node(self.levels.len() - 1, 0, 0, rows, &mut emit);
    }

    fn node(&self, level: usize, first: usize, bottom: u64, rows: &Rows, emit: &mut impl FnMut(usize, u32, u32)) {
        let (mut byte, mut row) = (bottom, rows.below(bottom));
        for (i, &bytes) in self.levels[level][first..first + FAN].iter().enumerate() {
            if bytes == 0 {
                continue;
            }
            let (above, from) = (byte + bytes, byte);
            let next = rows.below(above);
            if next > row {
                let at = first + i;
                match level.checked_sub(1) {
                    None => emit(at, row, next),
                    Some(_) if next - row == 1 && bytes as f64 * rows.per_byte <= 1.0 => {
                        emit(self.heaviest(level, at), row, next);
                    }
                    Some(below) => self.node(below, at * FAN, from, rows, emit),
                }
            }
            (byte, row) = (above, next);
            if row == rows.n {
                return;
            }
        }
    }

    /// The block reached by descending into the largest node of each level.
    fn heaviest(&self, level: usize, mut at: usize) -> usize {
        for level in self.levels[..level].iter().rev() {
            let node = &level[at * FAN..(at + 1) * FAN];
            let mut best = 0;
            for (i, &bytes) in node.iter().enumerate() {
                if bytes > node[best] {
                    best = i;
                }
            }
            at = at * FAN + best;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_show_what_lies_at_their_middle() {
        let mut random = 7_u64;
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for n in [1_usize, 15, 16, 17, 300, 5_000] {
            let mut tree = SumTree::new(n);
            let mut sizes: Vec<u64> = (0..n).map(|_| if next(3) == 0 { 0 } else { 512 * (1 + next(40)) }).collect();
            tree.fill(sizes.iter().copied());
            for _ in 0..n {
                let (at, bytes) = (next(n as u64) as usize, 512 * next(9));
                sizes[at] = bytes;
                tree.set(at, bytes);
            }
            let total: u64 = sizes.iter().sum();
            for (bottom, per_byte) in [(0, 200.0 / total.max(1) as f64), (total as i64 / 3, 1.0 / 700.0)] {
                let rows = Rows { bottom, per_byte, n: 200 };
                let mut shown = vec![None; 200];
                tree.stack(&rows, |block, from, to| shown[from as usize..to as usize].fill(Some(block)));
                check(&sizes, &rows, &shown);
            }
        }
    }

    fn check(sizes: &[u64], rows: &Rows, shown: &[Option<usize>]) {
        let ends: Vec<u64> = sizes
            .iter()
            .scan(0, |sum, &bytes| {
                *sum += bytes;
                Some(*sum)
            })
            .collect();
        for (row, &shown) in shown.iter().enumerate() {
            let byte = rows.bottom as f64 + (row as f64 + 0.5) / rows.per_byte;
            let exact = ends.iter().position(|&end| end as f64 >= byte);
            assert_eq!(shown.is_some(), exact.is_some(), "row {row}");
            let (Some(shown), Some(exact)) = (shown, exact) else { continue };
            let is_large = sizes[exact] as f64 * rows.per_byte > 1.0;
            assert!(shown == exact || !is_large, "row {row} shows {shown}, not {exact}");
            let (start, end) = ((ends[shown] - sizes[shown]) as f64, ends[shown] as f64);
            let near = 1.0 / rows.per_byte;
            assert!(sizes[shown] > 0 && start < byte + near && end > byte - near, "row {row} shows {shown} from afar");
        }
    }
}
