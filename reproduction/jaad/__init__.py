"""Do temporal rules help to learn from real clips?"""
