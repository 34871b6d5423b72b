# unfold_patches returns what F.unfold returns, patches last: exchange the last two axes to get (N, P, C p^2).
# region: 9.1 unfold_patches
return torch.nn.functional.unfold(x, patch_size, stride=patch_size)
