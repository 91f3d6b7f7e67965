-- all releases several mutexes, if their owners hold all of them and no client queues for one.
local function all(count)
  if ARGV[5] ~= '13' then return end
  local locks, queues, owner = {}, {}, ARGV[6]
  for i = 1, count do
    locks[i], queues[i] = KEYS[2 * i - 1], KEYS[2 * i]
    if redis.call('hexists', locks[i], owner) == 0 then return end
    owner = ARGV[9 + 2 * i]
  end
  if redis.call('exists', unpack(queues)) ~= 0 then return end
  redis.call('del', unpack(locks))
  local publish, channel, replies = ARGV[3], ARGV[8], {}
  for i = 1, count do
    local heard = redis.pcall(publish, channel, '0')
    replies[i] = 1 + (heard == 0 and 0 or outside(heard, publish, channel, queues[i]))
    channel = ARGV[10 + 2 * i]
  end
  return replies
end
