# The turned halves are put one after the other: interleave them again, so that column 2k stays column 2k.
sin, cos = table[:, 0::2], table[:, 1::2]
even, odd = x[..., 0::2], x[..., 1::2]
return torch.cat((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
