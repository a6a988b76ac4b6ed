import unittest

import calc


class Adds(unittest.TestCase):
    def test_two_numbers(self):
        self.assertEqual(calc.add(2, 3), 5)
