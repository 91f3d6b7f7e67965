-- The release of several mutexes by one owner that holds all of them. It precedes all functions, since these cost as much as some of the
-- commands.
if ARGV[5] == '3' and ARGV[7] == '0' then
  local owner, held = ARGV[6], true
  for i = 1, #KEYS do held = held and redis.call('hexists', KEYS[i], owner) == 1 end
  if held then
    redis.call('del', unpack(KEYS))
    local publish, channel, replies, heard = ARGV[3], ARGV[8], { {} }, 0
    for i = 1, #KEYS do
      local n = redis.pcall(publish, channel, '0')
      if type(n) ~= 'number' then n = 0 end -- the user may not publish
      replies[1 + i], heard, channel = 1 + n, heard + n, ARGV[9 + i]
    end
    return heard > 0 and replies or { {}, 1 }
  end
end
