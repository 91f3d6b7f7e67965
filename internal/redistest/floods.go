package redistest

// Floods are scripts that store hostile data where packages look for locks, by titles. Each
// stores at most 40 MB.
var Floods = map[string]string{
	"empty waits": `
		local text = '{"id":"1","waits":[' .. string.rep('{},', 5400) .. '{}]}'
		for i = 1, 1000 do redis.call('set', string.format('holdfast:deadlock:%016x', i), text) end`,
	"many waits": `
		local text = '{"id":"1","waits":[' .. string.rep('{"id":"a"},', 1400) .. '{"id":"a"}]}'
		for i = 1, 1000 do redis.call('set', string.format('holdfast:deadlock:%016x', i), text) end`,
	"waits for many locks": `
		local one = '{"id":"a","by":["a:1"],"holds":[' .. string.rep('{"name":"a","owner":"a:1"},', 20) .. '{}],"wants":[' .. string.rep('{"name":"b"},', 60) .. '{}]}'
		local text = '{"id":"1","waits":[' .. string.rep(one .. ',', 10) .. one .. ']}'
		for i = 1, 1000 do redis.call('set', string.format('holdfast:deadlock:%016x', i), text) end`,
	"long ids": `
		for i = 1, 100 do
			local id = string.rep('a', 100000) .. i
			redis.call('set', 'holdfast:deadlock:' .. id, '{"id":"1","waits":[{"id":"a"}]}')
			redis.call('set', 'holdfast:client:' .. id, '{"library":"x"}')
		end`,
	"long names": `
		for i = 1, 100 do redis.call('hset', string.rep('x', 100000) .. i, 'a:1', '1') end
		for _, key in ipairs(redis.call('keys', '*')) do redis.call('pexpire', key, 600000) end`,
	"many names": `
		for i = 1, 3000 do
			local name = string.rep('\255', 1000) .. i
			redis.call('hset', name, 'a:1', '1')
			redis.call('pexpire', name, 600000)
			redis.call('hset', name .. 'r', 'rate', '1', 'interval', '1', 'type', '0')
			redis.call('set', name .. 's', '1')
			redis.call('zadd', '{' .. name .. 's}:timeout', 9e14, '0123456789abcdef')
		end`,
	"long owners": `
		for i = 1, 40 do
			redis.call('hset', 'lock' .. i, 'a:1', '1')
			redis.call('pexpire', 'lock' .. i, 600000)
			for j = 1, 100 do redis.call('rpush', 'redisson_lock_queue:{lock' .. i .. '}', string.rep('\1', 9000) .. j) end
		end`,
	"crowds": `
		local client = '0b7a5a0e-6a43-8c0f-9a51-0d5f0a1c2b3d'
		local words = {}
		for _, word in ipairs({ 'host', 'program', 'version', 'pod', 'label', 'library' }) do words[#words + 1] = '"' .. word .. '":"' .. string.rep('<', 200) .. '"' end
		redis.call('set', 'holdfast:client:' .. client, '{' .. table.concat(words, ',') .. '}')
		for i = 1, 400 do
			redis.call('hset', 'lock' .. i, client .. ':1', '1')
			redis.call('pexpire', 'lock' .. i, 600000)
			for j = 1, 100 do redis.call('zadd', 'holdfast:queue:{lock' .. i .. '}', j, client .. ':' .. j) end
		end`,
	"long leaders": `
		for i = 1, 500 do
			redis.call('hset', 'lock' .. i, 'a:1', '1', 'leader', string.rep('\1', 60000))
			redis.call('pexpire', 'lock' .. i, 600000)
		end`,
	"many clients": `
		for i = 1, 10000 do redis.call('set', string.format('holdfast:client:%016x', i), '{"library":"x","host":"' .. string.rep('x', 1900) .. '"}') end`,
}
