//! triplane-native
