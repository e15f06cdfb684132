"""Golden of tests/tensor/loss_scale_test.c: Megatron-LM's rule for its dynamic loss scale, as its documentation of --loss-scale-window,
--hysteresis, --min-loss-scale and --initial-loss-scale says it:

    loss_scale_golden.py

The scale is halved (not below the minimum) once `hysteresis` overflows have been seen since the scale last grew, and by each overflow
after that. It is doubled, and hysteresis is whole again, after `window` steps in a row without overflow. Overflows are o, other steps -.
"""
RUNS = [("oooooo---o", 2**32, 1, 1000, 2), ("----o--oo------o-o----", 64, 1, 4, 2), ("oooooooo", 16, 4, 10, 1),
        ("--o--o--o------oo---", 1024, 1, 3, 3), ("-" * 12, 8, 1, 5, 2)]


def scales(steps, scale, least, window, hysteresis):
    left, good, out = hysteresis, 0, []
    for step in steps:
        if step == "o":
            left, good = left - 1, 0
            if left <= 0:
                scale = max(least, scale * 0.5)
        else:
            good += 1
            if good == window:
                good, left, scale = 0, hysteresis, scale * 2
        out.append(scale)
    return out


for steps, *settings in RUNS:
    numbers = ", ".join(f"{s:g}" if s < 1e6 else f"0x1p{int(s).bit_length() - 1}" for s in scales(steps, *settings))
    initial, least, window, hysteresis = settings
    print(f'    {{ "{steps}", {float(initial):g}, {{ true, {least}, {window}, {hysteresis} }},\n      {{ {numbers} }} }},')
