# shift_mask takes the shift of the rows for the columns: the first number belongs to the rows.
# region: 10.4 shift_mask
wrapped_rows = torch.arange(rows) >= rows - shift[1]
wrapped_columns = torch.arange(columns) >= columns - shift[0]
part = 2 * wrapped_rows.int().unsqueeze(1) + wrapped_columns.int()
part = window_partition(part[None, :, :, None], window)[0, :, :, 0]
return part.unsqueeze(2) == part.unsqueeze(1)
