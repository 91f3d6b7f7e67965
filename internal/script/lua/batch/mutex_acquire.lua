-- all acquires several mutexes, if all of them are free and wanted for the same time.
local function all(count)
  if ARGV[5] ~= '2' or ARGV[8] ~= '1' or redis.call('exists', unpack(KEYS)) ~= 0 then return end
  local seen = {} -- a mutex can be acquired once
  for _, key in ipairs(KEYS) do
    if seen[key] then return end
    seen[key] = true
  end
  local now = redis.call('time')
  local token, owner, replies = now[1] * 1000000 + now[2], ARGV[7], {}
  for i, key in ipairs(KEYS) do
    redis.call('hset', key, owner, '1')
    redis.call('pexpire', key, ARGV[6])
    owner, replies[i] = ARGV[8 + i], token
  end
  return replies
end
