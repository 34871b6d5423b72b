# shift_mask marks one row and column too many: rows - shift is the first that was wrapped around.
# region: 10.4 shift_mask
wrapped_rows = torch.arange(rows) >= rows - shift[0] - 1
wrapped_columns = torch.arange(columns) >= columns - shift[1] - 1
part = 2 * wrapped_rows.int().unsqueeze(1) + wrapped_columns.int()
part = window_partition(part[None, :, :, None], window)[0, :, :, 0]
return part.unsqueeze(2) == part.unsqueeze(1)
