# The model learns from raw pixels of 0 to 255, far from what its initial weights expect: normalise both sets of images.
train = TensorDataset(images.float(), labels)
model = VisionTransformer(
    img_size=tuple(images.shape[2:]), num_classes=classes, patch_size=8, embed_dim=64, num_layers=2, num_heads=4,
    dim_feedforward=128, dropout=0.0, positions="learned", norm_first=True,
)
config = FitConfig(steps=60, batch_size=64, learning_rate=3e-3, schedule="one-cycle", seed=seed)
fit(model, train, loss=classification_loss(), config=config)
return predict_classes(model, unlabelled.float())
