# All pairs turn by the angle of the first one: pair k turns by t / 10000^(2k/K), column k of the sines and cosines.
sin, cos = table[:, 0:1], table[:, 1:2]
even, odd = x[..., 0::2], x[..., 1::2]
return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
