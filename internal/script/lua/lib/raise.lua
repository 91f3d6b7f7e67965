-- raise makes a key last for at least ms from now on, and never shortens its time.
local function raise(key, ms)
  -- Written also if there is enough left: the master may be the only one to know. Up to 2^53 a number is exact, and
  -- written without an exponent; PEXPIRE refuses every other form. Nothing of ours lasts that long.
  redis.call('pexpire', key, math.min(math.max(redis.call('pttl', key), ms), 2 ^ 53))
end
