"""Reads `tally status JOB --json` and prints the bytes per worker and round, beside float32's."""
import json
import sys


def main() -> None:
    job = json.load(sys.stdin)
    rounds = int(job["round"])
    parameters = int(job["parameters"])
    workers = job["workers"]
    float32 = 4.0 * parameters
    print(f"{parameters:,} parameters, {rounds:,} rounds, {len(workers)} workers; "
          "bytes with frames, base model and evaluation included")
    print(f"{'worker':<12}{'sent/round':>14}{'received/round':>17}{'float32 each way':>19}"
          f"{'ratio up':>10}{'down':>8}")
    for worker in workers:
        up = int(worker["bytes_up"]) / rounds
        down = int(worker["bytes_down"]) / rounds
        print(f"{worker['name']:<12}{up:>14,.0f}{down:>17,.0f}{float32:>19,.0f}"
              f"{up / float32:>10.4f}{down / float32:>8.4f}")
    print(f"votes alone: {job['bits_up']:.3f} bits a parameter up, {job['bits_down']:.3f} down "
          "(float32: 32)")


if __name__ == "__main__":
    main()
