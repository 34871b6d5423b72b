# The vectors turn the wrong way: the signs of the two sines are exchanged; it is even cos - odd sin and even sin + odd cos.
sin, cos = table[:, 0::2], table[:, 1::2]
even, odd = x[..., 0::2], x[..., 1::2]
return torch.stack((even * cos + odd * sin, odd * cos - even * sin), dim=-1).flatten(-2)
