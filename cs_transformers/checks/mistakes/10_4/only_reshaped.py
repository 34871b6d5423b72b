# window_partition only reshapes and so cuts strips of neighbouring numbers: the axis of the window's rows and that of the windows have to change places first.
# region: 10.4 window_partition
return x.reshape(x.shape[0], -1, window * window, x.shape[3])
