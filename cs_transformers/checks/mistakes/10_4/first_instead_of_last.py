# shift_mask marks the first rows and columns: after a shift up and to the left the wrapped ones stand at the end.
# region: 10.4 shift_mask
wrapped_rows = torch.arange(rows) < shift[0]
wrapped_columns = torch.arange(columns) < shift[1]
part = 2 * wrapped_rows.int().unsqueeze(1) + wrapped_columns.int()
part = window_partition(part[None, :, :, None], window)[0, :, :, 0]
return part.unsqueeze(2) == part.unsqueeze(1)
