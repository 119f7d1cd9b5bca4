//! How often the rare things happened: a simulation that never gets to where it is hard proves little.

use crate::readers::Stream;

macro_rules! seen {
    ($($name:ident),+ $(,)?) => {
        /// A count for each.
        #[derive(Debug, Default)]
        pub(crate) struct Seen { $(pub(crate) $name: usize),+ }

        impl Seen {
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }

            /// What never happened.
            pub(crate) fn missing(&self) -> Vec<&'static str> {
                let all = [$((stringify!($name), self.$name)),+];
                all.into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
            }
        }
    };
}

seen!(
    runs,
    queued,
    handovers,
    answers,
    expired,
    overdue,
    compactions,
    squeezes,
    lost_records,
    interrupted,
    failed_appends,
    died,
    closes,
    evictions_refused,
    late,
    gaps,
    new_spaces,
    lagged,
);

impl Seen {
    pub(crate) fn add_stream(&mut self, stream: &Stream) {
        self.gaps += stream.gaps;
        self.new_spaces += stream.new_spaces;
    }
}
