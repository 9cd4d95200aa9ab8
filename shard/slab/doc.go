// Package slab keeps jobs and their bodies outside the Go heap, so that ten
// million of them give the garbage collector nothing to walk and a drained
// server gives its memory back at once, not some collections later.
//
// Pool holds records of one pointer-free type, Bytes holds byte strings. Both cut slots of one size
// out of regions, private anonymous mappings of about 1 MiB, made when first needed and unmapped as
// soon as all their slots are free. Allocation prefers low-numbered regions, so that survivors
// gather and high regions empty; numbers of unmapped regions are used again, so that indices stay
// dense. Nothing moves: an address is good until Free.
//
// # Costs
//
//   - Slot overhead: one bit, and the rounding of a string to its class: at
//     most 15 bytes up to 128, at most 12.5 % above. Ten million jobs of 64
//     bytes need 611 regions for their bodies.
//   - A Pool or a class with one slot in use: about 1 MiB mapped, one page
//     resident (two if slots have at most 48 bytes; large slots what they fill).
//   - The collector sees 8 bytes of pointer and 12 without per region.
//   - Empty regions: at most one stays mapped per Pool, with at most 64 KiB
//     resident or one record if that is more. Of the 80 classes of a Bytes
//     only some may keep one, together at most 512 KiB resident. With one Pool
//     and one Bytes in each of 16 shards that is 9 MiB after a drain, with 512
//     shards 288 MiB, at worst.
//   - Mappings: Linux merges regions that lie side by side, but a process that
//     has unmapped here and there may need one mapping per region, and
//     vm.max_map_count is 65,530 unless raised: about 64 GiB in slabs. Beyond
//     that Alloc and Put report that no memory can be had. Ten million jobs
//     with 1 KiB bodies need about 9,800 regions; one string in each of the
//     80 classes of 512 shards 40,960.
//
// # Misuse
//
// Free of what is not in use panics with the numbers: each region has a bit per slot. At and Get do
// not check; what they give for a freed index may be another record, or fault. No package state is
// shared: different Pools and Bytes may be used by different goroutines at once.
//
// Rejected: chunks on the Go heap (the collector lets the heap grow by GOGC
// percent first, and returns memory at its own pace); one large mapping per
// pool with MADV_DONTNEED (its address space must be guessed beforehand).
package slab
