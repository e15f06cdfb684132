"""Scaling laws fitted by scipy to made runs: what tests/plan/scaling_law_test.c compares with.
   scaling_laws.py > tests/golden/plan/scaling_laws.txt
A line is: name floor scale exponent cost, then size and loss of each run. floor, scale and exponent are those of
loss = floor + (scale / size)^exponent; cost is the sum of Huber's function of ln(fitted / measured) with the threshold 0.01 and of half
of (0.01 / 0.3 ln(exponent / 0.34))^2, divided by the runs. Losses are made with published constants (Hoffmann et al. 2022, arXiv 2203.15556: 1.69 + 406.4 / N^0.34; Kaplan et al. 2020, arXiv 2001.08361:
(8.8e13 / N)^0.076) and with drawn deviations."""
import numpy
import scipy
from scipy.optimize import least_squares

HUBER, EXPONENT, SPREAD = 0.01, 0.34, 0.3


def fit(size, loss):
    """The best of many starts; the logarithms of the coefficients are fitted. Half of the square of a residual is Huber's function."""
    middle = numpy.log(size).mean()
    x = numpy.log(size) - middle

    def residuals(p):
        r = numpy.log(numpy.exp(p[0] - numpy.exp(p[1]) * x) + numpy.exp(p[2])) - numpy.log(loss)
        far = numpy.sign(r) * numpy.sqrt(numpy.maximum(2 * HUBER * abs(r) - HUBER ** 2, 0))
        return numpy.append(numpy.where(abs(r) <= HUBER, r, far), HUBER / SPREAD * (p[1] - numpy.log(EXPONENT)))
    best = None
    for exponent in (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2):
        for share in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95):
            start = [numpy.mean(numpy.log(loss - share * loss.min()) + exponent * x), numpy.log(exponent), numpy.log(share * loss.min())]
            found = least_squares(residuals, start, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=20000)
            if best is None or found.cost < best.cost:
                best = found
    p = best.x
    return numpy.exp(p[2]), numpy.exp(middle + p[0] / numpy.exp(p[1])), numpy.exp(p[1]), best.cost / len(size)


def hoffmann(n):
    return 1.69 + 406.4 / n ** 0.34


def kaplan(n):
    return (8.8e13 / n) ** 0.076


def cases():
    rng = numpy.random.default_rng(7)
    large = numpy.array([44e6, 74e6, 140e6, 400e6, 1e9, 2.8e9, 10e9])
    small = numpy.array([33696.0, 97248, 216512, 409920, 692544])
    yield "hoffmann", large, hoffmann(large)
    yield "kaplan", large, kaplan(large)
    for deviation in (0.002, 0.005, 0.02):
        size = numpy.repeat(small, 3)
        yield f"seeds_{deviation}", size, (1.2 + (3000 / size) ** 0.5) * numpy.exp(deviation * rng.standard_normal(len(size)))
    yield "three", small[:3], 1.2 + (3000 / small[:3]) ** 0.5
    outlier = hoffmann(large) * numpy.exp(0.001 * rng.standard_normal(len(large)))
    outlier[3] *= 1.3
    yield "outlier", large, outlier


def main():
    print(f"# numpy {numpy.__version__}, scipy {scipy.__version__}")
    for name, size, loss in cases():
        numbers = [*fit(size, loss), *(v for pair in zip(size, loss) for v in pair)]
        print(name, *(f"{v:.17g}" for v in numbers))


if __name__ == "__main__":
    main()
