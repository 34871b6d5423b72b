# The classes come in another order than the images: do not shuffle what you predict.
mean, std = channel_statistics(images)
train = TensorDataset(normalise(images, mean, std), labels)
model = VisionTransformer(
    img_size=tuple(images.shape[2:]), num_classes=classes, patch_size=8, embed_dim=64, num_layers=2, num_heads=4,
    dim_feedforward=128, dropout=0.0, positions="learned", norm_first=True,
)
config = FitConfig(steps=400, batch_size=64, learning_rate=3e-3, schedule="one-cycle", seed=seed)
fit(model, train, loss=classification_loss(), config=config)
return predict_classes(model, normalise(unlabelled[torch.randperm(len(unlabelled))], mean, std))
