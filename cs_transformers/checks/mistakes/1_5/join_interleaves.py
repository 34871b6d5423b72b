# join_heads interleaves the heads column by column: H and K are swapped; the columns of one head stay together.
# region: 1.5 join_heads
return x.permute(0, 2, 3, 1).flatten(2)
