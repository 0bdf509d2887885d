"""A variational autoencoder of handwritten digits (Kingma & Welling 2014), trained with Adam (Kingma & Ba 2015)."""

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits

from yota_py import value_and_grad

images = (load_digits().data / 16.0 > 0.5).astype(float)
latent, hidden = 4, 64


def initial(rng):
    def layer(n, m):
        return {"W": rng.normal(size=(n, m)) / np.sqrt(n), "b": np.zeros(m)}

    return {"encode": layer(64, hidden), "mean": layer(hidden, latent), "log_var": layer(hidden, latent),
            "decode": layer(latent, hidden), "out": layer(hidden, 64)}  # fmt: skip


def dense(x, p):
    return x @ p["W"] + p["b"]


def negative_elbo(params, x, noise):
    h = np.tanh(dense(x, params["encode"]))
    mean, log_var = dense(h, params["mean"]), dense(h, params["log_var"])
    z = mean + np.exp(0.5 * log_var) * noise
    logits = dense(np.tanh(dense(z, params["decode"])), params["out"])
    reconstruction = np.sum(np.logaddexp(0, logits) - x * logits, axis=1)
    divergence = -0.5 * np.sum(1 + log_var - mean**2 - np.exp(log_var), axis=1)
    return np.mean(reconstruction + divergence)


rng = np.random.default_rng(0)
OBJECTIVE = negative_elbo
POINT = initial(rng)
BATCH = images[:20], rng.normal(size=(20, latent))


def train(epochs=20, size=100, rate=3e-3, seed=1):
    rng = np.random.default_rng(seed)
    params, step = initial(rng), value_and_grad(negative_elbo)
    first, second = ({k: {n: np.zeros_like(v) for n, v in p.items()} for k, p in params.items()} for _ in range(2))
    t = 0
    for _ in range(epochs):
        for batch in np.split(rng.permutation(1700), 1700 // size):
            t += 1
            loss, slopes = step(params, images[batch], rng.normal(size=(size, latent)))
            for k, p in params.items():
                for name in p:
                    g = slopes[k][name]
                    first[k][name] = 0.9 * first[k][name] + 0.1 * g
                    second[k][name] = 0.999 * second[k][name] + 0.001 * g**2
                    scale = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
                    p[name] = p[name] - scale * first[k][name] / (np.sqrt(second[k][name]) + 1e-8)
    return params, loss


def generated(params, z):
    return expit(dense(np.tanh(dense(z, params["decode"])), params["out"]))


if __name__ == "__main__":
    before = negative_elbo(initial(np.random.default_rng(1)), images[:100], np.zeros((100, latent)))
    params, _ = train()
    after = negative_elbo(params, images[1700:], np.zeros((len(images) - 1700, latent)))
    print(f"negative evidence bound {before:.1f} before, {after:.1f} after training")
