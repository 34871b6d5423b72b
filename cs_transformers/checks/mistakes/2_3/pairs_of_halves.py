# Column k is paired with column k + K/2: pair neighbours, 2k with 2k + 1.
sin, cos = table[:, 0::2], table[:, 1::2]
even, odd = x.chunk(2, dim=-1)
return torch.cat((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
