-- Renew many leases, each for its own owner only, and never shorten one.
-- KEYS  i      a lock
-- ARGV  1      lease time in ms
--       1 + i  the owner of lock i
-- RETURN  a list: 1 renewed, 0 that owner does not hold it
local renewed = {}
for i, key in ipairs(KEYS) do
  -- One key that is no lock any more must not keep the others from being renewed.
  renewed[i] = redis.call('type', key).ok == 'hash' and redis.call('hexists', key, ARGV[i + 1]) or 0
  -- Written also if there is enough left: the master may be the only one to know.
  if renewed[i] == 1 then redis.call('pexpire', key, math.max(redis.call('pttl', key), ARGV[1])) end
end
return renewed
