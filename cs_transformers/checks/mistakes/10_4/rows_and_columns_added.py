# shift_mask gives tokens wrapped in a row and tokens wrapped in a column the same number: 2 for the one, 1 for the other keep four parts apart.
# region: 10.4 shift_mask
wrapped_rows = torch.arange(rows) >= rows - shift[0]
wrapped_columns = torch.arange(columns) >= columns - shift[1]
part = wrapped_rows.int().unsqueeze(1) + wrapped_columns.int()
part = window_partition(part[None, :, :, None], window)[0, :, :, 0]
return part.unsqueeze(2) == part.unsqueeze(1)
